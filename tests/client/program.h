#pragma once

#include <string>
#include <sys/types.h>
#include <vector>

namespace tenure {

// A program of ours that a test runs, its output in files. Throws std::runtime_error if it cannot
// be started, and ends it in the destructor. Thread-compatible.
class Program {
 public:
  // The first argument is the executable. Output goes to `output_prefix`.out and .err.
  Program(std::vector<std::string> arguments, std::string output_prefix);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  pid_t pid() const { return pid_; }
  // Waits for its end; the exit status, or -1 if a signal ended it.
  int Wait();
  std::string Out() const;
  std::string Err() const;

 private:
  const std::string output_prefix_;
  pid_t pid_ = -1;
};

}  // namespace tenure
