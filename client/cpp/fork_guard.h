#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::client {

// Tells whether this process is the one that made the object, at the price of one load: threads,
// connections and mappings do not survive fork(). Thread-safe.
class ForkGuard {
 public:
  ForkGuard();

  // True in every process forked from the one that constructed this.
  bool forked() const { return forks.load(std::memory_order_relaxed) != generation_; }

 private:
  // How often this process's line of ancestors has forked since the library was loaded.
  static inline std::atomic<uint64_t> forks = 0;

  uint64_t generation_;
};

}  // namespace tenure::client
