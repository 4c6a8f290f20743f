#include "server/socket_listener.h"

#include <absl/strings/str_cat.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "server/handle_packet.h"

namespace tenure {
namespace {

constexpr int kBacklog = 128;

Status Refused(const char* call, const std::string& path) {
  return Error(Reason::kBackend,
               absl::StrCat("cannot open the socket: ", call, ": ", path, ": ",
                            std::generic_category().message(errno)),
               {{"path", path}});
}

UniqueFd OpenSpare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

StatusOr<SocketListener> SocketListener::Listen(SocketKind kind, const std::string& path,
                                                mode_t mode, std::optional<gid_t> group) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return Error(Reason::kInvalidRequest,
                 absl::StrCat("the path of a socket has 1 to ", sizeof address.sun_path - 1,
                              " bytes: ", path),
                 {{"path", path}});
  }
  memcpy(address.sun_path, path.data(), path.size());

  struct stat there {};
  if (lstat(path.c_str(), &there) == 0) {
    if (!S_ISSOCK(there.st_mode)) {
      return Error(Reason::kInvalidRequest,
                   absl::StrCat("something that is no socket is at the path: ", path),
                   {{"path", path}});
    }
    if (unlink(path.c_str()) != 0) return Refused("unlink", path);
  } else if (errno != ENOENT) {
    return Refused("lstat", path);
  }

  const int type = kind == SocketKind::kStream ? SOCK_STREAM : SOCK_SEQPACKET;
  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return Refused("socket", path);
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Refused("bind", path);
  }
  SocketListener listener(path, std::move(socket));
  if (group.has_value() && chown(path.c_str(), static_cast<uid_t>(-1), *group) != 0) {
    return Refused("chown", path);
  }
  if (chmod(path.c_str(), mode) != 0) return Refused("chmod", path);
  if (listen(listener.fd(), kBacklog) != 0) return Refused("listen", path);
  return listener;
}

SocketListener::SocketListener(std::string path, UniqueFd socket)
    : path_(std::move(path)), socket_(std::move(socket)), spare_(OpenSpare()) {}

SocketListener::~SocketListener() {
  if (socket_.valid()) unlink(path_.c_str());
}

UniqueFd SocketListener::AcceptOne() {
  return UniqueFd(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

SocketListener::Acceptance SocketListener::Accept(std::string_view last_words) {
  UniqueFd accepted = AcceptOne();
  if (accepted.valid()) return {.outcome = Outcome::kAccepted, .socket = std::move(accepted)};
  if (errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS) {
    return {.outcome = Outcome::kNobody, .socket = {}};
  }
  if (!spare_.valid()) spare_ = OpenSpare();
  if (!spare_.valid()) return {.outcome = Outcome::kStuck, .socket = {}};
  spare_.Reset();
  accepted = AcceptOne();
  const bool nobody = !accepted.valid() && errno == EAGAIN;
  const bool refused = accepted.valid();
  if (refused && !last_words.empty()) (void)SendPacket(accepted.get(), last_words, {});
  accepted.Reset();
  spare_ = OpenSpare();
  if (nobody) return {.outcome = Outcome::kNobody, .socket = {}};
  return {.outcome = refused ? Outcome::kRefused : Outcome::kStuck, .socket = {}};
}

}  // namespace tenure
