#pragma once

#include <optional>
#include <string>
#include <sys/types.h>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace tenure {

// The listening SOCK_SEQPACKET socket at a path. The destructor removes the path. Move-only,
// thread-compatible.
class HandleListener {
 public:
  // Nobody can connect before mode and group are set. A socket that is at `path` already is
  // replaced: the caller knows that nobody listens there. INVALID_REQUEST for a path that is too
  // long or names something that is no socket, BACKEND for what the machine refuses.
  static StatusOr<HandleListener> Listen(const std::string& path, mode_t mode,
                                         std::optional<gid_t> group);
  HandleListener(HandleListener&&) = default;
  HandleListener& operator=(HandleListener&&) = delete;
  ~HandleListener();

  int fd() const { return socket_.get(); }

  enum class Outcome {
    kAccepted,
    kNobody,   // waits to be taken, for now
    kRefused,  // we are out of fds: the client that was first in line was hung up on
    kStuck,    // out of fds, without one to refuse with: try again later
  };
  struct Acceptance {
    Outcome outcome;
    UniqueFd socket;
  };
  Acceptance Accept();

 private:
  HandleListener(std::string path, UniqueFd socket);
  UniqueFd AcceptOne();

  std::string path_;
  UniqueFd socket_;
  UniqueFd spare_;  // given up for a moment to refuse a client when there is no other fd
};

}  // namespace tenure
