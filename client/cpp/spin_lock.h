#pragma once

#include <atomic>

namespace tenure::client {

// A mutex for a few dozen nanoseconds at a time, half as dear as one that wakes: unlocking is a
// store. Who does not get it spins a little, then lets other threads run, then looks again every 50
// microseconds. Thread-safe.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() {
    if (held_.exchange(true, std::memory_order_acquire)) LockSlowly();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  void LockSlowly();

  std::atomic<bool> held_ = false;
};

}  // namespace tenure::client
