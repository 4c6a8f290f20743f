#pragma once

#include <cstddef>
#include <cstdint>
#include <sys/types.h>
#include <vector>

#include "tests/e2e/tenured.h"

namespace tenure {

// How many file descriptors a process has open. Throws std::filesystem::filesystem_error if it does
// not run.
size_t FdsOf(pid_t pid);

// What a daemon holds at one moment. Plain values.
struct Traces {
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  size_t series = 0;  // in /metrics
  size_t fds = 0;
  size_t threads = 0;
  size_t maps = 0;
  size_t private_kib = 0;

  // Throws std::runtime_error if the daemon does not run.
  static Traces Of(const Tenured& daemon);
};

// What one step adds, by the medians of the first and the last third of what was seen after each.
// REQUIRES: three steps or more.
double Slope(const std::vector<Traces>& all, size_t Traces::*member);

}  // namespace tenure
