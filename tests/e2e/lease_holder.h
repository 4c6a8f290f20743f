#pragma once

#include <memory>
#include <string>
#include <sys/types.h>

#include "tests/client/program.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// A client in a process of its own, which has loaded and leased a model and waits for its end; see
// lease_holder_main.cc for `mode`. Throws std::runtime_error if it does not get there.
// Thread-compatible.
class LeaseHolder {
 public:
  LeaseHolder(const Tenured& daemon, const std::string& name, const std::string& path,
              const std::string& mode = "hold", int ttl_ms = 30'000);
  // Ends the child too.
  ~LeaseHolder();
  LeaseHolder(const LeaseHolder&) = delete;
  LeaseHolder& operator=(const LeaseHolder&) = delete;

  pid_t pid() const { return pid_; }
  // Of mode `fork`; 0 otherwise.
  pid_t child() const { return child_; }

  // SIGKILL, and waits for its end.
  void Kill();
  // SIGSTOP and SIGCONT.
  void Pause();
  void Resume();
  // What it has said, "ready" first.
  std::string Out() const { return process_->Out(); }

 private:
  const TempDir temp_;
  std::unique_ptr<Program> process_;
  pid_t pid_ = 0;
  pid_t child_ = 0;
};

}  // namespace tenure
