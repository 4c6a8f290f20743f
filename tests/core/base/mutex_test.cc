#include "core/base/mutex.h"

#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "core/base/clock.h"

namespace tenure {
namespace {

struct Counter {
  Mutex mutex;
  CondVar changed;
  int value ABSL_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, OneThreadAtATimeHoldsIt) {
  Counter counter;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&counter] {
      for (int n = 0; n < 1000; ++n) {
        const MutexLock lock(counter.mutex);
        ++counter.value;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const MutexLock lock(counter.mutex);
  EXPECT_EQ(counter.value, 4000);
}

TEST(MutexLockTest, OpensAGapForOthers) {
  Counter counter;
  MutexLock lock(counter.mutex);
  lock.Unlock();
  std::thread other([&counter] {
    const MutexLock inner(counter.mutex);
    counter.value = 1;
  });
  other.join();
  lock.Lock();
  EXPECT_EQ(counter.value, 1);
}

TEST(CondVarTest, AWaiterSeesWhatTheNotifierWrote) {
  Counter counter;
  std::thread notifier([&counter] {
    const MutexLock lock(counter.mutex);
    counter.value = 1;
    counter.changed.NotifyAll();
  });
  {
    const MutexLock lock(counter.mutex);
    while (counter.value == 0) counter.changed.Wait(counter.mutex);
    EXPECT_EQ(counter.value, 1);
  }
  notifier.join();
}

TEST(CondVarTest, AWaitEndsAfterItsSpan) {
  Counter counter;
  const SteadyClock clock;
  const Instant end = clock.Now() + std::chrono::milliseconds(5);
  const MutexLock lock(counter.mutex);
  while (clock.Now() < end) counter.changed.WaitFor(counter.mutex, end - clock.Now());
  EXPECT_EQ(counter.value, 0);
}

}  // namespace
}  // namespace tenure
