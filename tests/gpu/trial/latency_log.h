#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"

namespace tenure::trial {

// How long each of many calls took, and when: written by one process, read by another at the same
// time, through a file that both map. A full log takes no more. Everything throws
// std::runtime_error if the system refuses. Thread-compatible.
class LatencyLog {
 public:
  // Makes the file if it is missing.
  explicit LatencyLog(const std::string& path);
  ~LatencyLog();
  LatencyLog(const LatencyLog&) = delete;
  LatencyLog& operator=(const LatencyLog&) = delete;

  void Add(Instant began, Duration took);

  // Those that began in [from, to), and the one that was under way at `from`. Waits until one that
  // began later has ended.
  std::vector<Duration> Within(Instant from, Instant to) const;

 private:
  static constexpr uint64_t kMost = uint64_t{1} << 23;

  struct Entry {
    int64_t began;  // of the steady clock, which all processes share
    int64_t took;
  };
  struct Pages {
    std::atomic<uint64_t> count;
    Entry entries[kMost];
  };

  // All that were added so far.
  std::span<const Entry> Entries() const;

  Pages* pages_ = nullptr;
};

}  // namespace tenure::trial
