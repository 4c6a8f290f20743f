#include "client/cpp/spin_lock.h"

namespace tenure::client {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void SpinLock::LockSlowly() {
  for (int i = 0; i < kSpins; ++i) {
    uint32_t expected = kFree;
    if (state_.load(std::memory_order_relaxed) == kFree &&
        state_.compare_exchange_weak(expected, kHeld, std::memory_order_acquire,
                                     std::memory_order_relaxed)) {
      return;
    }
    Pause();
  }
  while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) state_.wait(kAwaited);
}

}  // namespace tenure::client
