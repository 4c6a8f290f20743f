#include "server/handle_peer.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace tenure {
namespace {

constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD, which this system's headers lack

// Whether a pidfd could be had of another process, or at another time.
bool OnlyNotNow(int error) {
  return error == ESRCH || error == EMFILE || error == ENFILE || error == ENOMEM;
}

// nullopt if the process has ended, or there is no fd to be had for it now.
std::optional<UniqueFd> PidfdOf(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0) return UniqueFd(fd);
  if (OnlyNotNow(errno)) return std::nullopt;
  if (pid <= 0) return UniqueFd();
  UniqueFd opened(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!opened.valid()) {
    if (OnlyNotNow(errno)) return std::nullopt;
    return opened;
  }
  // Whoever still holds the connection has not ended since.
  pollfd state{.fd = socket, .events = POLLRDHUP, .revents = 0};
  if (poll(&state, 1, 0) != 0) return std::nullopt;
  return opened;
}

std::vector<gid_t> GroupsOf(int socket) {
  std::vector<gid_t> groups(32);
  while (true) {
    auto size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    const int told = getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size);
    groups.resize(told == 0 || errno == ERANGE ? size / sizeof(gid_t) : 0);
    if (told == 0 || groups.empty()) return groups;
  }
}

}  // namespace

std::optional<HandlePeer> IdentifyPeer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return std::nullopt;
  std::optional<UniqueFd> pidfd = PidfdOf(socket, credentials.pid);
  if (!pidfd.has_value()) return std::nullopt;
  return HandlePeer{.uid = credentials.uid,
                    .gid = credentials.gid,
                    .groups = GroupsOf(socket),
                    .pid = credentials.pid,
                    .pidfd = *std::move(pidfd)};
}

}  // namespace tenure
