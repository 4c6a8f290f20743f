#pragma once

#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/base/unique_fd.h"

namespace tenure {

// The right to serve one directory: an flock on DIRECTORY/tenured.lock, whose text is "pid
// boot_id". It must be held before anybody listens in the directory: gRPC takes a socket's path
// away from a live server without a word. Move-only; the destructor, or the end of the process,
// gives the right back.
class DaemonLock {
 public:
  // Makes the directory, mode 0755, if it is missing. Fails with "already running (pid N, boot id
  // X)" if another process has the right.
  static StatusOr<DaemonLock> Take(const std::string& directory, const std::string& boot_id);

  DaemonLock(DaemonLock&&) = default;
  DaemonLock& operator=(DaemonLock&&) = delete;
  ~DaemonLock();

  // Makes way for a socket: removes what an earlier daemon left at `path`. Whatever is there and is
  // no socket stays, and is refused.
  Status ClearSocketPath(const std::string& path) const;

 private:
  explicit DaemonLock(UniqueFd file) : file_(std::move(file)) {}

  UniqueFd file_;
};

}  // namespace tenure
