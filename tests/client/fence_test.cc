#include "tenure/fence.h"

#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "client/cpp/error.h"
#include "tenure/errors.h"
#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

// All of the one segment that there is, so that nobody else can have memory before it is free.
class FenceTest : public testing::Test, protected PlainPool {
 protected:
  FenceTest() { segments->set_most(1); }

  PoolBuffer All() { return Take(kSegment); }
  // Acquires all memory in a thread of its own, and returns once it waits.
  void StartWaiting() {
    const int grows = segments->grows();
    thread_ = std::thread([this] {
      absl::StatusOr<PoolBuffer> buffer = pool.Acquire(kSegment);
      got_ = buffer.ok();
      value_then_ = timeline_.value();
    });
    segments->AwaitGrows(grows + 1);
  }
  bool JoinWaiting() {
    thread_.join();
    return got_;
  }

  Timeline timeline_;
  std::thread thread_;
  bool got_ = false;
  uint64_t value_then_ = 0;
};

TEST_F(FenceTest, ATimelineOnlyRises) {
  Timeline timeline;
  EXPECT_EQ(timeline.value(), 0u);
  timeline.Advance(3);
  timeline.Advance(2);
  EXPECT_EQ(timeline.value(), 3u);
}

TEST_F(FenceTest, MemoryIsFreeWhenTheLastOfItsReadersIsDone) {
  Timeline copy;
  ASSERT_TRUE(All().Release({Fence::At(timeline_, 3), Fence::At(copy, 5)}).ok());
  timeline_.Advance(3);
  EXPECT_FALSE(Fits(kSegment));
  copy.Advance(4);
  EXPECT_FALSE(Fits(kSegment));
  copy.Advance(5);
  EXPECT_TRUE(Fits(kSegment));
}

TEST_F(FenceTest, TheLastReaderMayBeTheFirstNamed) {
  ASSERT_TRUE(All().Release({Fence::At(timeline_, 5), Fence::At(timeline_, 3)}).ok());
  timeline_.Advance(3);
  EXPECT_FALSE(Fits(kSegment));
  timeline_.Advance(5);
  EXPECT_TRUE(Fits(kSegment));
}

TEST_F(FenceTest, AWaiterHasTheMemoryOnceTheLastFenceIsReachedAndNotBefore) {
  Timeline compute;
  ASSERT_TRUE(All().Release({Fence::At(compute, 3), Fence::At(timeline_, 5)}).ok());
  StartWaiting();
  compute.Advance(3);
  timeline_.Advance(4);
  timeline_.Advance(5);
  EXPECT_TRUE(JoinWaiting());
  EXPECT_EQ(value_then_, 5u);
}

TEST_F(FenceTest, AReachedFenceFreesAtOnce) {
  timeline_.Advance(7);
  ASSERT_TRUE(All().Release(Fence::At(timeline_, 7)).ok());
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST_F(FenceTest, FencesMayComeOutOfOrder) {
  std::vector<PoolBuffer> buffers;
  for (int i = 0; i < 4; ++i) buffers.push_back(Take(kSegment / 4));
  const uint64_t values[] = {4, 2, 3, 1};
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(buffers[i].Release(Fence::At(timeline_, values[i])).ok());
  }
  for (uint64_t value = 1; value <= 4; ++value) {
    timeline_.Advance(value);
    EXPECT_EQ(pool.Trim(), value == 4 ? kSegment : 0);
    EXPECT_EQ(pool.used_bytes(), kSegment / 4 * (4 - value));
  }
}

TEST_F(FenceTest, AFenceThatIsNeverReachedKeepsOnlyItsOwnMemory) {
  PoolBuffer kept = Take(kSegment / 4);
  PoolBuffer other = Take(kSegment / 4);
  ASSERT_TRUE(kept.Release(Fence::At(timeline_, 9)).ok());
  ASSERT_TRUE(other.Release(Fence::At(timeline_, 1)).ok());
  timeline_.Advance(8);
  EXPECT_FALSE(Fits(kSegment));
  EXPECT_TRUE(Fits(kSegment / 4 * 3));
}

TEST_F(FenceTest, ATimelineThatIsDestroyedUnreachedKeepsTheMemory) {
  std::optional<Timeline> timeline(std::in_place);
  ASSERT_TRUE(Take(kSegment / 2).Release(Fence::At(*timeline, 2)).ok());
  ASSERT_TRUE(Take(kSegment / 2).Release(Fence::At(*timeline, 1)).ok());
  timeline->Advance(1);
  timeline.reset();
  // Might be where the other one was.
  Timeline next;
  next.Advance(10);
  EXPECT_TRUE(Fits(kSegment / 2));
  EXPECT_FALSE(Fits(kSegment));
  EXPECT_EQ(pool.used_bytes(), kSegment / 2);
}

TEST_F(FenceTest, AWaiterIsRefusedOnceTheTimelineIsGone) {
  std::optional<Timeline> timeline(std::in_place);
  ASSERT_TRUE(All().Release(Fence::At(*timeline, 2)).ok());
  StartWaiting();
  timeline.reset();
  EXPECT_FALSE(JoinWaiting());
}

TEST_F(FenceTest, AFenceOfATimelineThatIsGoneIsRefused) {
  PoolBuffer buffer = All();
  const Fence stale = Fence::At(Timeline(), 0);
  Timeline next;  // where the other one was
  EXPECT_EQ(ErrorReason(buffer.Release(stale)), "INVALID_REQUEST");
  Timeline moved;
  next = std::move(moved);
  EXPECT_EQ(ErrorReason(buffer.Release(Fence::At(moved, 0))), "INVALID_REQUEST");
  EXPECT_EQ(ErrorReason(buffer.Release(Fence::CudaEvent(nullptr))), "INVALID_REQUEST");
  EXPECT_TRUE(buffer.valid());
  EXPECT_TRUE(buffer.Release().ok());
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST_F(FenceTest, MemoryWhoseReleaseWasRefusedIsKept) {
  events->available_ = MakeError(absl::StatusCode::kFailedPrecondition, "CUDA_UNAVAILABLE", "none");
  std::atomic<bool> event = true;
  {
    PoolBuffer buffer = All();
    EXPECT_EQ(ErrorReason(buffer.Release(Fence::CudaEvent(&event))), "CUDA_UNAVAILABLE");
  }
  EXPECT_EQ(pool.used_bytes(), kSegment);
  EXPECT_FALSE(Fits(1));
  EXPECT_EQ(pool.Trim(), 0u);
}

TEST_F(FenceTest, AnEventFreesMemoryOnceItIsReached) {
  std::atomic<bool> event = false;
  ASSERT_TRUE(All().Release({Fence::CudaEvent(&event), Fence::At(timeline_, 1)}).ok());
  timeline_.Advance(1);
  EXPECT_FALSE(Fits(kSegment));
  event = true;
  EXPECT_TRUE(Fits(kSegment));
}

TEST_F(FenceTest, AWaiterSeesThatAnEventIsReached) {
  std::atomic<bool> event = false;
  ASSERT_TRUE(All().Release(Fence::CudaEvent(&event)).ok());
  StartWaiting();
  event = true;
  EXPECT_TRUE(JoinWaiting());
}

TEST_F(FenceTest, AnEventServesAWaiterWhoseDaemonDoesNotAnswer) {
  std::atomic<bool> event = false;
  ASSERT_TRUE(All().Release(Fence::CudaEvent(&event)).ok());
  segments->set_stuck(true);
  StartWaiting();
  event = true;
  EXPECT_TRUE(JoinWaiting());
}

TEST_F(FenceTest, AFenceOnANewTimelineServesWhoWaitsAlready) {
  PoolBuffer buffer = All();
  segments->set_stuck(true);
  StartWaiting();
  ASSERT_TRUE(buffer.Release(Fence::At(timeline_, 1)).ok());
  timeline_.Advance(1);
  EXPECT_TRUE(JoinWaiting());
}

TEST_F(FenceTest, WhatIsPendingDoesNotKeepSegmentsOfOthers) {
  segments->set_most(3);
  PoolBuffer first = All();
  PoolBuffer second = All();
  ASSERT_TRUE(first.Release(Fence::At(timeline_, 1)).ok());
  ASSERT_TRUE(second.Release().ok());
  EXPECT_EQ(pool.Trim(), kSegment);
  EXPECT_EQ(pool.held_bytes(), kSegment);
}

TEST_F(FenceTest, ManyTimelinesComeAndGo) {
  segments->set_most(2);
  for (int i = 0; i < 1000; ++i) {
    Timeline one;
    ASSERT_TRUE(Take(1000).Release({Fence::At(one, 1), Fence::At(timeline_, 1)}).ok()) << i;
    one.Advance(1);
  }
  timeline_.Advance(1);
  pool.Trim();
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST_F(FenceTest, ThreadsThatAdvanceServeThoseThatWait) {
  constexpr int kThreads = 4;
  constexpr uint64_t kRounds = 2'000;
  segments->set_most(2);
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(static_cast<uint32_t>(t));
      Timeline own;
      for (uint64_t i = 1; i <= kRounds; ++i) {
        absl::StatusOr<PoolBuffer> buffer = pool.Acquire(1 + random() % (kSegment / 2));
        if (!buffer.ok()) {
          failed += !absl::IsResourceExhausted(buffer.status());
          continue;
        }
        if (random() % 4 == 0) {
          own.Advance(i - 1);
          failed += !buffer->Release().ok();
        } else {
          failed += !buffer->Release(Fence::At(own, i)).ok();
          own.Advance(i);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  local->Validate();
  pool.Trim();
  EXPECT_EQ(pool.held_bytes(), 0u);
  EXPECT_EQ(segments->granted_bytes(), 0u);
}

}  // namespace
}  // namespace tenure::client
