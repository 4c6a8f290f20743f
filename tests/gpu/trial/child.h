#pragma once

#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/unique_fd.h"
#include "tests/client/program.h"

namespace tenure::trial {

// One message between a part and a process that it started, with an fd or without.
struct Message {
  std::string text;
  UniqueFd fd;
};

// Throws std::runtime_error if the other side is gone.
void Send(int socket, const std::string& text, int fd = -1);
// The same, and if what comes is not `expected`, with what came instead.
Message Receive(int socket, const std::string& expected);

// Whether a process that this one started has ended, whatever it left. Thread-compatible.
class ProcessEnd {
 public:
  // REQUIRES: nobody has waited for `pid`.
  explicit ProcessEnd(pid_t pid);
  // Waits for it up to `patience`.
  bool Happened(Duration patience) const;

 private:
  UniqueFd pidfd_;
};

// A process of this program's in a role, see part.h. Ends with this object, and with the part.
// Everything throws std::runtime_error if it fails. Thread-compatible.
class Child {
 public:
  // Its output goes to files in `temp`.
  Child(const std::string& role, std::vector<std::string> arguments, const std::string& temp);

  int socket() const { return socket_.get(); }
  // Its exit status, or -1 if a signal ended it; waits for its end.
  int Wait() { return program_->Wait(); }
  // SIGKILL; does not wait.
  void Kill() const;
  // Whether it has ended, waiting up to `patience` for that.
  bool Ended(Duration patience) const { return end_->Happened(patience); }

 private:
  UniqueFd socket_;
  std::unique_ptr<Program> program_;
  std::optional<ProcessEnd> end_;
};

}  // namespace tenure::trial
