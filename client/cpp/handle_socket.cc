#include "client/cpp/handle_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <system_error>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// The most that the kernel passes in one message.
constexpr size_t kMaxFds = 253;

std::string TextOf(int error) { return std::error_code(error, std::generic_category()).message(); }

absl::Status Unreachable(const std::string& path, const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable, kDaemonUnreachable,
                   "no daemon answers at " + path + ": " + why, {{"path", path}});
}

absl::Status Gone(const std::string& why) {
  return MakeError(absl::StatusCode::kUnavailable, kDaemonGone, why);
}

}  // namespace

absl::StatusOr<HandleSocket> HandleSocket::Connect(const std::string& path, Deadline deadline) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError("too long for a socket's path: " + path);
  }
  memcpy(address.sun_path, path.c_str(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemError("making a socket", errno);

  // A full backlog blocks connect() on a Unix socket for as long as the send timeout.
  const auto left = std::chrono::duration_cast<std::chrono::microseconds>(deadline.left());
  timeval timeout{};
  timeout.tv_sec = static_cast<time_t>(left.count() / 1'000'000);
  timeout.tv_usec = static_cast<suseconds_t>(left.count() % 1'000'000);
  if (timeout.tv_sec == 0 && timeout.tv_usec == 0) timeout.tv_usec = 1;  // zero means for ever
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));

  int result = 0;
  do {
    result = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR && deadline.left() > Duration(0));
  if (result != 0) {
    return Unreachable(path,
                       errno == EAGAIN ? "it does not accept connections in time" : TextOf(errno));
  }
  const int flags = fcntl(fd.get(), F_GETFL);
  if (flags < 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return SystemError("making a socket non-blocking", errno);
  }
  return HandleSocket(std::move(fd));
}

absl::StatusOr<bool> HandleSocket::Send(const std::string& packet) {
  ssize_t sent = 0;
  do {
    sent = send(fd_.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return true;
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) return false;
  return Gone("the daemon does not take packets any more: " + TextOf(errno));
}

absl::StatusOr<std::optional<ReceivedPacket>> HandleSocket::Receive() {
  ReceivedPacket packet;
  packet.bytes.resize(kMaxPacket);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  iovec buffer{packet.bytes.data(), packet.bytes.size()};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);

  ssize_t received = 0;
  do {
    received = recvmsg(fd_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    // A reset is said once when the daemon hung up without having read everything; what it sent
    // before can still be received.
  } while (received < 0 && (errno == EINTR || errno == ECONNRESET));
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::nullopt;
    return Gone("the connection to the daemon broke: " + TextOf(errno));
  }
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(fd);
    }
  }
  if (received == 0) return Gone("the daemon closed the connection");
  packet.fds_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  if ((message.msg_flags & MSG_TRUNC) != 0) return ProtocolError("a packet is longer than 64 KiB");
  packet.bytes.resize(static_cast<size_t>(received));
  return packet;
}

}  // namespace tenure::client
