#include "server/handle_packet.h"

#include <algorithm>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "core/base/check.h"

namespace tenure {
namespace {

bool HasHungUp(int socket) {
  pollfd state{.fd = socket, .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) == 1 && (state.revents & (POLLRDHUP | POLLHUP)) != 0;
}

}  // namespace

SendResult SendPacket(int socket, std::string_view packet, std::span<const UniqueFd> fds) {
  TENURE_CHECK(fds.size() <= kMaxPacketFds);
  iovec part{.iov_base = const_cast<char*>(packet.data()), .iov_len = packet.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPacketFds * sizeof(int))] = {};
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    int numbers[kMaxPacketFds];
    std::transform(fds.begin(), fds.end(), numbers, [](const UniqueFd& fd) { return fd.get(); });
    memcpy(CMSG_DATA(header), numbers, fds.size() * sizeof(int));
  }
  while (true) {
    if (sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return SendResult::kSent;
    switch (errno) {
      case EINTR:
        continue;
      case EAGAIN:
        return SendResult::kFull;
      case ETOOMANYREFS:
      case ENOBUFS:
      case ENOMEM:
        return SendResult::kTryLater;
      default:
        return SendResult::kGone;
    }
  }
}

Received ReceivePacket(int socket, std::span<char> buffer) {
  while (true) {
    iovec part{.iov_base = buffer.data(), .iov_len = buffer.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    // Without room for control messages the kernel drops what fds were sent and says MSG_CTRUNC.
    const ssize_t size = recvmsg(socket, &message, MSG_DONTWAIT);
    if (size > 0) {
      const bool whole = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
      return {.kind = whole ? Received::Kind::kPacket : Received::Kind::kBroken,
              .size = static_cast<size_t>(size)};
    }
    if (size == 0) {
      return {.kind = HasHungUp(socket) ? Received::Kind::kHangUp : Received::Kind::kBroken};
    }
    switch (errno) {
      case EINTR:
      // Said once when the other side closed without having read everything; what it sent before
      // can still be received.
      case ECONNRESET:
        continue;
      case EAGAIN:
      case ENOMEM:
      case ENOBUFS:
        return {.kind = Received::Kind::kNothing};
      default:
        return {.kind = Received::Kind::kHangUp};
    }
  }
}

}  // namespace tenure
