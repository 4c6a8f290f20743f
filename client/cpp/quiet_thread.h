#pragma once

#include <functional>
#include <thread>

namespace tenure::client {

// Starts a thread that takes no signals: those are the program's own threads' business.
std::thread StartQuietThread(std::function<void()> body);

}  // namespace tenure::client
