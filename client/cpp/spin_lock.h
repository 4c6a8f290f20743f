#pragma once

#include <atomic>
#include <cstdint>

namespace tenure::client {

// A mutex for a few dozen nanoseconds at a time: spins a little, then sleeps until it is unlocked.
// A third state says that somebody may sleep (Drepper: "Futexes are tricky", 2011). Thread-safe.
class SpinLock {
 public:
  SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() {
    uint32_t expected = kFree;
    if (!state_.compare_exchange_strong(expected, kHeld, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
      LockSlowly();
    }
  }
  void unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) state_.notify_one();
  }

 private:
  static constexpr uint32_t kFree = 0;
  static constexpr uint32_t kHeld = 1;
  static constexpr uint32_t kAwaited = 2;  // held, and somebody sleeps, or did
  static constexpr int kSpins = 100;

  void LockSlowly();

  std::atomic<uint32_t> state_ = kFree;
};

}  // namespace tenure::client
