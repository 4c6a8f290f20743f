#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/unique_fd.h"
#include "tests/support/emulated_gpu.h"

namespace tenure::emulated {

// Another process that calls the driver as it is told: emulated-driver-peer, started by fork and
// exec. Throws std::runtime_error if it ends unasked. Thread-compatible.
class Peer {
 public:
  // `more_environment` holds NAME=VALUE.
  explicit Peer(const EmulatedGpu& machine, const std::vector<std::string>& more_environment = {});
  // Ends it with SIGKILL if it runs, and waits for its end.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  pid_t pid() const { return pid_; }

  struct Reply {
    int result = 0;  // a CUresult
    std::vector<uint64_t> values;
    UniqueFd fd;
  };
  // Has a command done, see peer_main.cc, and waits for the reply. An fd goes along.
  Reply Do(const std::string& command, int fd = -1);
  // The same in two steps.
  void Ask(const std::string& command, int fd = -1);
  Reply Answer();
  // Whether a reply has come.
  bool Answered();

  // SIGKILL, and waits for the end.
  void Kill();
  // Waits for an end that comes by itself; the signal that brought it, or 0.
  int WaitForEnd();

 private:
  UniqueFd socket_;
  pid_t pid_ = -1;  // -1 once it has ended
};

}  // namespace tenure::emulated
