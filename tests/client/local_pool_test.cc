#include "client/cpp/local_pool.h"

#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/errors.h"
#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

constexpr BufferKind kKinds[] = {BufferKind::kActivation, BufferKind::kWorkspace, BufferKind::kIo};

class LocalPoolTest : public testing::Test, protected PlainPool {
 protected:
  ~LocalPoolTest() override {
    for (std::thread& thread : threads_) thread.join();
    EXPECT_EQ(segments->bad(), 0);
  }

  std::string ReasonOf(uint64_t bytes, uint64_t alignment,
                       BufferKind kind = BufferKind::kActivation) {
    const absl::StatusOr<PoolBuffer> buffer =
        pool.Acquire(bytes, {.alignment = alignment, .kind = kind});
    return buffer.ok() ? "" : ErrorReason(buffer.status());
  }
  void AwaitLine(size_t threads) {
    while (local->waiting() < threads) std::this_thread::yield();
  }
  // One sweep each second.
  void Pass(int seconds) {
    for (int i = 0; i < seconds; ++i) local->Sweep(now_ += std::chrono::seconds(1));
  }

  Instant now_ = Now();
  std::vector<std::thread> threads_;
};

TEST_F(LocalPoolTest, ABufferIsWhereItSays) {
  PoolBuffer first = Take(1000);
  PoolBuffer second = *pool.Acquire(3000, {.alignment = 4096, .kind = BufferKind::kActivation});
  EXPECT_EQ(first.size_bytes(), 1000u);
  EXPECT_EQ(first.data(), Base() + first.offset());
  EXPECT_EQ(second.offset() % 4096, 0u);
  EXPECT_GE(second.offset(), first.offset() + 1000);
  EXPECT_EQ(pool.held_bytes(), kSegment);
  EXPECT_EQ(pool.used_bytes(), 1024u + 3072u);
  EXPECT_EQ(segments->grows(), 1);
}

TEST_F(LocalPoolTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(ReasonOf(0, 256), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(UINT64_MAX, 256), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf((uint64_t{1} << 30) + 1, 256), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(1, 0), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(1, 300), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(1, uint64_t{4} << 20), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(1, uint64_t{1} << 63), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(1, 256, static_cast<BufferKind>(3)), "INVALID_REQUEST");
  EXPECT_EQ(segments->grows(), 0);
  EXPECT_EQ(ReasonOf(1, 1), "");
  EXPECT_EQ(ReasonOf(1, uint64_t{2} << 20), "");
}

TEST_F(LocalPoolTest, ABufferIsReleasedOnce) {
  PoolBuffer buffer = Take(1000);
  PoolBuffer moved = std::move(buffer);
  EXPECT_FALSE(buffer.valid());
  EXPECT_EQ(ErrorReason(buffer.Release()), "RELEASED");
  EXPECT_TRUE(moved.valid());
  EXPECT_TRUE(moved.Release().ok());
  PoolBuffer next = Take(1000);
  EXPECT_EQ(ErrorReason(moved.Release()), "RELEASED");
  EXPECT_FALSE(moved.valid());
  EXPECT_EQ(pool.used_bytes(), 1024u);
  next = Take(2000);
  EXPECT_EQ(pool.used_bytes(), 2048u);
  { const PoolBuffer gone = std::move(next); }
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST_F(LocalPoolTest, KindsShareNoSegment) {
  std::vector<PoolBuffer> buffers;
  for (const BufferKind kind : kKinds) buffers.push_back(Take(1000, kind));
  EXPECT_EQ(pool.held_bytes(), 3 * kSegment);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(buffers[i].kind(), kKinds[i]);
    for (size_t j = 0; j < i; ++j) {
      EXPECT_NE(buffers[i].offset() / kSegment, buffers[j].offset() / kSegment);
    }
  }
}

TEST_F(LocalPoolTest, ARefusalIsPassedOnAndNothingIsLost) {
  segments->set_most(2);
  const PoolBuffer buffer = Take(kSegment);
  EXPECT_EQ(pool.Acquire(2 * kSegment).status().message(), "no more segments");
  EXPECT_EQ(pool.used_bytes(), kSegment);
  EXPECT_TRUE(pool.Acquire(kSegment).ok());
}

TEST_F(LocalPoolTest, WhatOtherKindsDoNotUseIsGivenBackBeforeARefusal) {
  segments->set_most(2);
  Take(kSegment, BufferKind::kIo).Release().IgnoreError();
  EXPECT_TRUE(pool.Acquire(2 * kSegment).ok());
}

TEST_F(LocalPoolTest, AStuckDaemonEndsWithTheDeadline) {
  segments->set_stuck(true);
  const absl::StatusOr<PoolBuffer> buffer =
      pool.Acquire(1, {}, {.timeout = std::chrono::milliseconds(1)});
  EXPECT_TRUE(absl::IsDeadlineExceeded(buffer.status()));
}

TEST_F(LocalPoolTest, AStopEndsAnAcquire) {
  segments->set_stuck(true);
  std::stop_source stop;
  threads_.emplace_back([&] {
    segments->AwaitGrows(1);
    stop.request_stop();
  });
  EXPECT_TRUE(absl::IsCancelled(pool.Acquire(1, {}, {.cancel = stop.get_token()}).status()));
  EXPECT_TRUE(absl::IsCancelled(pool.Acquire(1, {}, {.cancel = stop.get_token()}).status()));
}

TEST_F(LocalPoolTest, MemoryThatIsReleasedMeanwhileServesWhoAsksTheDaemon) {
  PoolBuffer buffer = Take(kSegment);
  segments->set_stuck(true);
  threads_.emplace_back([&] {
    segments->AwaitGrows(2);
    buffer.Release().IgnoreError();
  });
  EXPECT_TRUE(pool.Acquire(kSegment).ok());
  EXPECT_EQ(segments->granted_bytes(), kSegment);
}

TEST_F(LocalPoolTest, ThreadsThatRunDryTogetherGrowOnce) {
  segments->set_stuck(true);
  std::atomic<int> served = 0;
  for (int i = 0; i < 4; ++i) {
    threads_.emplace_back([&] {
      const absl::StatusOr<PoolBuffer> buffer = pool.Acquire(kSegment / 4);
      served += buffer.ok();
      while (served < 4) std::this_thread::yield();
    });
  }
  segments->AwaitGrows(1);
  AwaitLine(4);
  segments->set_stuck(false);
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  EXPECT_EQ(served, 4);
  EXPECT_EQ(segments->grows(), 1);
}

TEST_F(LocalPoolTest, WhoCameFirstIsServedFirst) {
  segments->set_most(1);
  Timeline timeline;
  std::vector<PoolBuffer> quarters;
  for (int i = 0; i < 4; ++i) quarters.push_back(Take(kSegment / 4));
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(quarters[i].Release(Fence::At(timeline, i + 1)).ok());
  }
  std::atomic<bool> first_is_served = false;
  threads_.emplace_back([&] { first_is_served = pool.Acquire(kSegment).ok(); });
  AwaitLine(1);
  // Refused, if it comes to that: the first keeps nothing for it to wait for.
  threads_.emplace_back([&] { pool.Acquire(1).status().IgnoreError(); });
  AwaitLine(2);
  timeline.Advance(3);
  // Three quarters are free, enough for the second.
  EXPECT_EQ(local->waiting(), 2u);
  timeline.Advance(4);
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
  EXPECT_TRUE(first_is_served);
}

TEST_F(LocalPoolTest, NobodyGetsPastTheLine) {
  segments->set_most(1);
  PoolBuffer half = Take(kSegment / 2);
  Timeline timeline;
  ASSERT_TRUE(half.Release(Fence::At(timeline, 1)).ok());
  threads_.emplace_back([&] { EXPECT_TRUE(pool.Acquire(kSegment).ok()); });
  segments->AwaitGrows(2);
  AwaitLine(1);
  EXPECT_FALSE(Fits(1));
  EXPECT_TRUE(local->GiveBack(UINT64_MAX) == 0);
  timeline.Advance(1);
}

TEST_F(LocalPoolTest, WhatSizesRotateThePoolHoldsTheLargestAndOneSegment) {
  std::mt19937_64 random(500);
  std::vector<uint64_t> sizes;
  for (int i = 0; i < 500; ++i) sizes.push_back(1 + random() % (6 * kSegment));
  uint64_t most_used = 0;
  uint64_t most_held = 0;
  for (int round = 0; round < 4; ++round) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      std::vector<PoolBuffer> live;
      for (size_t kind = 0; kind < 3; ++kind) {
        live.push_back(Take(sizes[(i + 7 * kind) % sizes.size()], kKinds[kind]));
      }
      most_used = std::max(most_used, pool.used_bytes());
      most_held = std::max(most_held, pool.held_bytes());
    }
  }
  // Of each kind the largest is live at some time, if not of all at once.
  const uint64_t largest = 3 * *std::max_element(sizes.begin(), sizes.end());
  EXPECT_GT(most_used, largest / 2);
  EXPECT_LE(most_held, largest + 3 * kSegment);
  local->Validate();
}

TEST_F(LocalPoolTest, OneGiantRequestDoesNotInflateThePoolForEver) {
  Take(100 * kSegment).Release().IgnoreError();
  EXPECT_EQ(pool.held_bytes(), 100 * kSegment);
  std::mt19937_64 random(1);
  std::vector<PoolBuffer> live;
  for (int second = 0; second < 10; ++second) {
    for (int i = 0; i < 1000; ++i) {
      if (live.size() == 16) live.erase(live.begin() + static_cast<int>(random() % 16));
      live.push_back(Take(1 + random() % (kSegment / 16)));
    }
    if (second == 6) {
      EXPECT_EQ(pool.held_bytes(), 100 * kSegment);
    }
    Pass(1);
  }
  EXPECT_EQ(pool.held_bytes(), kSegment);
  live.clear();
  Pass(10);
  EXPECT_EQ(pool.held_bytes(), 0u);
  EXPECT_EQ(segments->granted_bytes(), 0u);
}

TEST_F(LocalPoolTest, WhatWasUsedLatelyStays) {
  Pass(1);
  for (int i = 0; i < 20; ++i) {
    Take(3 * kSegment).Release().IgnoreError();
    Pass(6);
    EXPECT_EQ(pool.held_bytes(), 3 * kSegment);
  }
  EXPECT_EQ(segments->grows(), 1);
}

TEST_F(LocalPoolTest, TheDaemonGetsWhatIsFreeAndNotMoreThanItWants) {
  const PoolBuffer buffer = Take(1);
  Take(5 * kSegment).Release().IgnoreError();
  EXPECT_EQ(local->GiveBack(1), kSegment);
  EXPECT_EQ(local->GiveBack(kSegment + 1), 2 * kSegment);
  EXPECT_EQ(pool.held_bytes(), 3 * kSegment);
  EXPECT_EQ(local->GiveBack(UINT64_MAX), 2 * kSegment);
  EXPECT_EQ(local->GiveBack(UINT64_MAX), 0u);
  EXPECT_TRUE(buffer.valid());
}

TEST_F(LocalPoolTest, ALostPoolSaysWhy) {
  PoolBuffer buffer = Take(kSegment);
  PoolBuffer other = Take(kSegment);
  segments->set_stuck(true);
  threads_.emplace_back([&] {
    segments->AwaitGrows(3);
    local->Invalidate("LEASE_EXPIRED");
    local->Invalidate("DEVICE_LOST");
  });
  EXPECT_EQ(ErrorReason(pool.Acquire(1).status()), "LEASE_EXPIRED");
  threads_.back().join();
  threads_.clear();
  EXPECT_FALSE(buffer.valid());
  EXPECT_FALSE(pool.valid());
  EXPECT_EQ(ReasonOf(1, 256), "LEASE_EXPIRED");
  EXPECT_TRUE(buffer.Release().ok());
  EXPECT_EQ(pool.Trim(), 0u);
  Pass(20);
  EXPECT_EQ(segments->granted_bytes(), 2 * kSegment);
}

TEST_F(LocalPoolTest, BuffersOutliveTheirPool) {
  Timeline timeline;
  PoolBuffer first = Take(kSegment);
  PoolBuffer second = Take(kSegment);
  const std::weak_ptr<LocalPool> state = local;
  local.reset();
  { const BufferPool gone = std::move(pool); }
  ASSERT_FALSE(state.expired());
  EXPECT_TRUE(second.valid());
  EXPECT_TRUE(first.Release().ok());
  EXPECT_FALSE(state.expired());
  EXPECT_TRUE(second.Release().ok());
  EXPECT_TRUE(state.expired());
  EXPECT_EQ(segments->granted_bytes(), 0u);
}

TEST_F(LocalPoolTest, AClosedPoolGivesBackWhatItsFencesKeptWhenTheyAreReached) {
  Timeline timeline;
  ASSERT_TRUE(Take(kSegment).Release(Fence::At(timeline, 1)).ok());
  Take(kSegment).Release().IgnoreError();
  { const BufferPool gone = std::move(pool); }
  Pass(20);
  EXPECT_EQ(segments->granted_bytes(), kSegment);
  EXPECT_FALSE(local->done());
  timeline.Advance(1);
  Pass(1);
  EXPECT_EQ(segments->granted_bytes(), 0u);
  EXPECT_TRUE(local->done());
}

}  // namespace
}  // namespace tenure::client
