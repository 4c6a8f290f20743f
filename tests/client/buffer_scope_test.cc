#include "tenure/buffer_scope.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/errors.h"
#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

class BufferScopeTest : public testing::Test, protected PlainPool {
 protected:
  ~BufferScopeTest() override { local->Validate(); }

  static ScopeBuffer TakeOf(BufferScope& scope, uint64_t bytes, uint64_t alignment = 256) {
    return *scope.Acquire(bytes, alignment);
  }
  bool IsFree(const ScopeBuffer& buffer) const {
    // Everything else is taken first, so that it is the only place.
    return pool.Acquire(buffer.size_bytes, {}, {.timeout = std::chrono::nanoseconds(0)}).ok();
  }
  std::string ReasonOf(BufferScope& scope, uint64_t bytes, uint64_t alignment) {
    const absl::StatusOr<ScopeBuffer> buffer = scope.Acquire(bytes, alignment);
    return buffer.ok() ? "" : ErrorReason(buffer.status());
  }

  Timeline timeline_;
};

TEST_F(BufferScopeTest, BuffersLieSideBySideAndEndTogether) {
  BufferScope scope = pool.OpenScope();
  ScopeBuffer last = TakeOf(scope, 1000);
  EXPECT_EQ(last.data, Base() + last.offset);
  for (int i = 0; i < 1000; ++i) {
    const ScopeBuffer next = TakeOf(scope, 1000, 16);
    EXPECT_EQ(next.offset % 256, 0u);
    EXPECT_NE(next.offset, last.offset);
    last = next;
  }
  EXPECT_EQ(TakeOf(scope, 1, 4096).offset % 4096, 0u);
  EXPECT_GE(pool.used_bytes(), 1001u * 1024);
  EXPECT_LE(pool.used_bytes(), 2u * 1024 * 1024 + 4096);
  EXPECT_TRUE(scope.Release().ok());
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST_F(BufferScopeTest, AScopeTakesWhatTheLastTwoUsedAtOnce) {
  for (int round = 0; round < 4; ++round) {
    BufferScope scope = pool.OpenScope();
    TakeOf(scope, 1000);
    if (round >= 2) {
      EXPECT_EQ(pool.used_bytes(), 100u * 1024);
    }
    for (int i = 1; i < 100; ++i) TakeOf(scope, 1000);
  }
}

TEST_F(BufferScopeTest, AGiantScopeDoesNotInflateTheNext) {
  for (const uint64_t bytes : {uint64_t{1000}, 20 * kSegment, uint64_t{1000}, uint64_t{1000}}) {
    BufferScope scope = pool.OpenScope();
    TakeOf(scope, bytes);
    EXPECT_LE(pool.used_bytes(), std::max<uint64_t>(bytes, 64 * 1024));
  }
}

TEST_F(BufferScopeTest, WhatMakesNoSenseIsRefused) {
  BufferScope scope = pool.OpenScope();
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(ReasonOf(scope, 0, 256), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, UINT64_MAX, 256), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, UINT64_MAX - 255, 256), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1, 0), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1, 3), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1, 768), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1, uint64_t{4} << 20), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1, uint64_t{1} << 63), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1, 1), "");
    EXPECT_EQ(ReasonOf(scope, 1, uint64_t{2} << 20), "");
  }
}

TEST_F(BufferScopeTest, AReleasedScopeIsOfNoUse) {
  BufferScope scope = pool.OpenScope();
  const ScopeBuffer buffer = TakeOf(scope, 1000);
  BufferScope moved = std::move(scope);
  EXPECT_EQ(ReasonOf(scope, 1, 256), "SCOPE_RELEASED");
  EXPECT_EQ(ErrorReason(scope.Release()), "SCOPE_RELEASED");
  EXPECT_EQ(ErrorReason(scope.KeepUntil(buffer, Fence::At(timeline_, 1))), "SCOPE_RELEASED");
  EXPECT_TRUE(moved.Release().ok());
  EXPECT_EQ(ReasonOf(moved, 1, 256), "SCOPE_RELEASED");
  EXPECT_EQ(ErrorReason(moved.Release()), "SCOPE_RELEASED");
  EXPECT_EQ(ErrorReason(moved.KeepUntil(buffer, Fence::At(timeline_, 1))), "SCOPE_RELEASED");
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST_F(BufferScopeTest, AReaderKeepsItsBufferAndNothingElse) {
  Timeline other;
  ScopeBuffer kept;
  {
    BufferScope scope = pool.OpenScope();
    TakeOf(scope, 5000);
    kept = TakeOf(scope, 10'000);
    TakeOf(scope, 5000);
    ASSERT_TRUE(scope.KeepUntil(kept, Fence::At(timeline_, 1)).ok());
    ASSERT_TRUE(scope.KeepUntil(kept, Fence::At(other, 1)).ok());
  }
  EXPECT_EQ(pool.used_bytes(), 10'240u);
  // All around it is free again.
  std::vector<PoolBuffer> rest;
  for (uint64_t used = 10'240; used < kSegment; used += 256) {
    rest.push_back(Take(256));
    ASSERT_TRUE(rest.back().offset() >= kept.offset + 10'240 ||
                rest.back().offset() + 256 <= kept.offset);
  }
  EXPECT_EQ(pool.held_bytes(), kSegment);
  segments->set_most(1);
  timeline_.Advance(1);
  EXPECT_FALSE(IsFree(kept));
  other.Advance(1);
  EXPECT_TRUE(IsFree(kept));
}

TEST_F(BufferScopeTest, FencesOfTheReleaseAreReadersOfAll) {
  BufferScope scope = pool.OpenScope();
  const ScopeBuffer first = TakeOf(scope, 1024);
  const ScopeBuffer second = TakeOf(scope, 2048);
  TakeOf(scope, 4096);
  Timeline other;
  ASSERT_TRUE(scope.KeepUntil(second, Fence::At(other, 1)).ok());
  ASSERT_TRUE(scope.KeepUntil(first, Fence::At(timeline_, 1)).ok());
  ASSERT_TRUE(scope.Release(Fence::At(timeline_, 2)).ok());
  pool.Trim();
  EXPECT_EQ(pool.used_bytes(), 1024u + 2048 + 4096);
  timeline_.Advance(1);
  pool.Trim();
  EXPECT_EQ(pool.used_bytes(), 1024u + 2048 + 4096);
  timeline_.Advance(2);
  pool.Trim();
  EXPECT_EQ(pool.used_bytes(), 2048u);
  other.Advance(1);
  EXPECT_EQ(pool.Trim(), kSegment);
}

TEST_F(BufferScopeTest, ReadersInManyBlocksAreKeptEach) {
  segments->set_most(100);
  std::vector<ScopeBuffer> buffers;
  {
    BufferScope scope = pool.OpenScope();
    for (int i = 0; i < 40; ++i) buffers.push_back(TakeOf(scope, kSegment / 3));
    for (size_t i = 40; i-- > 0;) {
      if (i % 4 != 0) continue;
      ASSERT_TRUE(scope.KeepUntil(buffers[i], Fence::At(timeline_, i + 1)).ok());
    }
  }
  const uint64_t one = (kSegment / 3 + 255) / 256 * 256;
  for (uint64_t left = 10; left > 0; --left) {
    EXPECT_EQ(pool.used_bytes(), left * one);
    timeline_.Advance((10 - left) * 4 + 1);
    pool.Trim();
  }
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST_F(BufferScopeTest, ATimelineMayGoBeforeTheScopeIsReleased) {
  BufferScope scope = pool.OpenScope();
  const ScopeBuffer reached = TakeOf(scope, 1024);
  const ScopeBuffer unreached = TakeOf(scope, 2048);
  {
    Timeline timeline;
    ASSERT_TRUE(scope.KeepUntil(reached, Fence::At(timeline, 1)).ok());
    ASSERT_TRUE(scope.KeepUntil(unreached, Fence::At(timeline, 2)).ok());
    timeline.Advance(1);
  }
  ASSERT_TRUE(scope.Release().ok());
  EXPECT_EQ(pool.used_bytes(), 2048u);
}

TEST_F(BufferScopeTest, OnlyItsOwnBuffersAreKept) {
  BufferScope scope = pool.OpenScope();
  BufferScope other = pool.OpenScope();
  TakeOf(scope, 1000);
  const ScopeBuffer foreign = TakeOf(other, 1000);
  EXPECT_EQ(ErrorReason(scope.KeepUntil(foreign, Fence::At(timeline_, 1))), "INVALID_REQUEST");
  EXPECT_EQ(ErrorReason(scope.KeepUntil({}, Fence::At(timeline_, 1))), "INVALID_REQUEST");
  ScopeBuffer longer = TakeOf(scope, 1000);
  longer.size_bytes = UINT64_MAX;
  EXPECT_EQ(ErrorReason(scope.KeepUntil(longer, Fence::At(timeline_, 1))), "INVALID_REQUEST");
  EXPECT_TRUE(scope.Release().ok());
  EXPECT_TRUE(other.Release().ok());
  EXPECT_EQ(pool.used_bytes(), 0u);
}

TEST_F(BufferScopeTest, ABadFenceKeepsWhatItWasFor) {
  const Fence stale = Fence::At(Timeline(), 1);
  {
    BufferScope scope = pool.OpenScope();
    const ScopeBuffer buffer = TakeOf(scope, 1000);
    TakeOf(scope, 1000);
    EXPECT_EQ(ErrorReason(scope.KeepUntil(buffer, stale)), "INVALID_REQUEST");
  }
  EXPECT_EQ(pool.used_bytes(), 1024u);
  {
    BufferScope scope = pool.OpenScope();
    TakeOf(scope, 1000);
    EXPECT_EQ(ErrorReason(scope.Release(Fence::CudaEvent(nullptr))), "INVALID_REQUEST");
    EXPECT_EQ(ReasonOf(scope, 1000, 256), "");
  }
  EXPECT_GE(pool.used_bytes(), 3u * 1024);
  BufferScope scope = pool.OpenScope();
  TakeOf(scope, 1000);
  EXPECT_FALSE(scope.Release(Fence::CudaEvent(nullptr)).ok());
  const uint64_t used = pool.used_bytes();
  EXPECT_TRUE(scope.Release().ok());
  EXPECT_LT(pool.used_bytes(), used);
}

TEST_F(BufferScopeTest, ScopesOfManyThreadsShareNothing) {
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Timeline timeline;
      for (uint64_t round = 1; round <= 300; ++round) {
        BufferScope scope = pool.OpenScope(BufferKind::kWorkspace);
        for (uint64_t i = 1; i <= 20; ++i) {
          const absl::StatusOr<ScopeBuffer> buffer = scope.Acquire(1000 * i);
          failed += !buffer.ok();
          if (i == 10 && buffer.ok()) {
            failed += !scope.KeepUntil(*buffer, Fence::At(timeline, round)).ok();
          }
        }
        failed += !scope.Release().ok();
        timeline.Advance(round - 1);
      }
      timeline.Advance(300);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  pool.Trim();
  EXPECT_EQ(pool.held_bytes(), 0u);
}

}  // namespace
}  // namespace tenure::client
