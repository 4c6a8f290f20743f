#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/base/unique_fd.h"

namespace tenure {

// Most bytes in one packet of the handle socket, and most fds that travel with one.
inline constexpr size_t kMaxPacketBytes = 64 << 10;
inline constexpr size_t kMaxPacketFds = 64;

enum class SendResult {
  kSent,
  kFull,      // the client has not read enough yet: EPOLLOUT tells when it has
  kTryLater,  // the kernel refuses for now (too many fds in flight, no memory); nothing tells when
  kGone,      // nobody can read it any more
};

// Sends `packet` and `fds` as one message, whole or not at all; never waits. The caller keeps the
// fds. REQUIRES: at most kMaxPacketFds fds.
SendResult SendPacket(int socket, std::string_view packet, std::span<const UniqueFd> fds);

struct Received {
  enum class Kind {
    kPacket,   // `size` bytes at the start of the buffer
    kNothing,  // for now
    kBroken,   // an empty packet, one longer than the buffer, or one with fds
    kHangUp,   // the other side will never send again, and all it sent has been received
  };
  Kind kind = Kind::kNothing;
  size_t size = 0;
};

// Takes one packet off the socket; never waits. Fds that come with it never enter this process.
Received ReceivePacket(int socket, std::span<char> buffer);

}  // namespace tenure
