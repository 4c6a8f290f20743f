#pragma once

#include <cstdint>
#include <string>
#include <sys/types.h>

#include "tests/client/program.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// A client in a process of its own that holds runtime memory, and waits for its end; see
// buffer_holder_main.cc for `mode`. Throws std::runtime_error if it does not get there.
// Thread-compatible.
class BufferHolder {
 public:
  // `directory` is where the daemon's sockets lie.
  BufferHolder(const std::string& directory, uint64_t bytes, const std::string& mode = "hold");
  // Ends the child too.
  ~BufferHolder();
  BufferHolder(const BufferHolder&) = delete;
  BufferHolder& operator=(const BufferHolder&) = delete;

  pid_t pid() const { return process_.pid(); }
  // Of mode `fork`; 0 otherwise.
  pid_t child() const { return child_; }

  // SIGKILL, and waits for its end.
  void Kill();
  void KillChild();
  // SIGSTOP and SIGCONT.
  void Pause();
  void Resume();
  // SIGUSR1.
  void Nudge();
  // What it has said, "ready" first.
  std::string Out() const { return process_.Out(); }

 private:
  const TempDir temp_;
  Program process_;
  pid_t child_ = 0;
};

}  // namespace tenure
