#include "client/cpp/spin_lock.h"

#include <chrono>
#include <thread>

namespace tenure::client {
namespace {

constexpr int kSpins = 100;
constexpr int kYields = 10;
constexpr auto kSleep = std::chrono::microseconds(50);

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void SpinLock::LockSlowly() {
  int tries = 0;
  do {
    // Reads only, so that the holder keeps the cache line.
    while (held_.load(std::memory_order_relaxed)) {
      if (tries < kSpins) {
        Pause();
      } else if (tries < kSpins + kYields) {
        std::this_thread::yield();
      } else {
        std::this_thread::sleep_for(kSleep);
      }
      ++tries;
    }
  } while (held_.exchange(true, std::memory_order_acquire));
}

}  // namespace tenure::client
