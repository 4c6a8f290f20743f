#pragma once

#include <string>
#include <thread>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// Stands between clients and a daemon's gRPC socket, so that a test can take replies away. A client
// that connects to `directory()` reaches the daemon's handle socket directly. Throws
// std::runtime_error if the machine does not let it listen. Thread-safe.
class SocketRelay {
 public:
  explicit SocketRelay(const std::string& daemon_directory);
  ~SocketRelay();
  SocketRelay(const SocketRelay&) = delete;
  SocketRelay& operator=(const SocketRelay&) = delete;

  const std::string& directory() const { return temp_.path(); }

  // What the daemon says from now on stays with the relay; what clients say still passes.
  void HoldReplies();
  // Closes every connection, with what was held, and each new one, until Mend.
  void Break();
  void Mend();

 private:
  struct Pair {
    UniqueFd client;
    UniqueFd daemon;
  };

  void Run();
  void Accept() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake();

  const TempDir temp_;
  const std::string daemon_socket_;
  const UniqueFd listener_;
  const UniqueFd wake_;

  Mutex mutex_;
  std::vector<Pair> pairs_ ABSL_GUARDED_BY(mutex_);
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  bool broken_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace tenure
