#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

namespace tenure::client {

struct CallOptions {
  // Unset: as in ConnectOptions. No call goes on for longer: it ends with DEADLINE_EXCEEDED.
  std::optional<std::chrono::nanoseconds> timeout{};
  // Ends the call with CANCELLED when stop is requested.
  std::stop_token cancel{};
};

}  // namespace tenure::client

namespace tenure {
using client::CallOptions;
}  // namespace tenure
