#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace tenure {

enum class SocketKind { kPackets, kStream };

// A listening Unix socket at a path. The destructor removes the path. Move-only, thread-compatible.
class SocketListener {
 public:
  // Nobody can connect before mode and group are set. A socket that is at `path` already is
  // replaced: the caller knows that nobody listens there. INVALID_REQUEST for a path that is too
  // long or names something that is no socket, BACKEND for what the machine refuses.
  static StatusOr<SocketListener> Listen(SocketKind kind, const std::string& path, mode_t mode,
                                         std::optional<gid_t> group);
  SocketListener(SocketListener&&) = default;
  SocketListener& operator=(SocketListener&&) = delete;
  ~SocketListener();

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
  // Whoever is refused hears `last_words` first.
  Acceptance Accept(std::string_view last_words = {});

 private:
  SocketListener(std::string path, UniqueFd socket);
  UniqueFd AcceptOne();

  std::string path_;
  UniqueFd socket_;
  UniqueFd spare_;  // given up for a moment to refuse a client when there is no other fd
};

}  // namespace tenure
