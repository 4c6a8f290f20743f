#pragma once

#include <string>

#include "core/base/unique_fd.h"

namespace tenure::emulated {

// One message of a SOCK_SEQPACKET socket, with an fd or without.
struct Message {
  std::string text;
  UniqueFd fd;
};

// False if the other side is gone.
bool Send(int socket, const std::string& text, int fd = -1);
bool Receive(int socket, Message& message);

}  // namespace tenure::emulated
