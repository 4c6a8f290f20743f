#include "core/runtime/pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "tests/core/runtime/pool_of.h"

namespace tenure {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr Bytes kSegment = KiB(64);
constexpr Bytes kKind = kSegment * 16;

class PoolTest : public ::testing::Test {
 protected:
  static constexpr Bytes Begin(BufferKind kind) { return kKind * static_cast<uint64_t>(kind); }

  PoolOf pool_{{.segment_size = kSegment, .kind_bytes = kKind}};
};

// --- Of the sizes that are the default.

TEST(LargePoolTest, ABufferBringsTheSegmentsThatItNeedsAndNoMore) {
  PoolOf pool({.segment_size = MiB(8), .kind_bytes = MiB(256)});
  ASSERT_THAT(pool.Acquire({{.size = MiB(20)}}), SizeIs(1));
  EXPECT_THAT(pool->segments(), SizeIs(3));
  ASSERT_THAT(pool.Acquire({{.size = MiB(4)}}), SizeIs(1));
  EXPECT_THAT(pool->segments(), SizeIs(3));
  EXPECT_EQ(pool->LargestFree(0), Bytes(0));
  EXPECT_EQ(pool->LargestFree(2), MiB(16));
}

TEST(LargePoolTest, GrowthContinuesWhatIsFreeAtTheEnd) {
  PoolOf pool({.segment_size = MiB(8), .kind_bytes = MiB(256)});
  pool.Acquire({{.size = MiB(2)}});
  const std::vector<Buffer> large = pool.Acquire({{.size = MiB(14)}});
  ASSERT_THAT(large, SizeIs(1));
  EXPECT_EQ(large[0].place, Range(MiB(2), MiB(16)));
  EXPECT_THAT(pool->segments(), SizeIs(2));
}

// An arena that is full of small buffers, half of them gone: much is free, but nothing large.
TEST(LargePoolTest, ALargeBufferIsRefusedBetweenSmallOnesAndFitsOnceTheyAreGone) {
  PoolOf pool({.segment_size = MiB(8), .kind_bytes = MiB(64)});
  const std::vector<Buffer> large = pool.Acquire({{.size = MiB(32)}});
  ASSERT_THAT(large, SizeIs(1));
  pool.Release(large[0]);
  std::vector<Buffer> small;
  for (int i = 0; i < 32; ++i) small.push_back(pool.Acquire({{.size = MiB(2)}}).at(0));
  pool.ExpectBytes(MiB(64), MiB(64), MiB(64));
  for (size_t i = 0; i < small.size(); i += 2) pool.Release(small[i]);

  EXPECT_FALSE(pool->Place(std::vector<BufferSpec>{{.size = MiB(24)}}).possible());
  EXPECT_EQ(pool->bytes().free(), MiB(32));
  EXPECT_EQ(pool->LargestFree(0), MiB(2));
  const std::vector<Buffer> around = pool->AroundLargestHole(BufferKind::kActivation);
  ASSERT_FALSE(around.empty());
  ASSERT_LE(around.size(), 2U);
  const Bytes gap = around.size() == 2 ? around[1].place.begin() - around[0].place.end() : MiB(2);
  EXPECT_EQ(gap, MiB(2));

  for (size_t i = 1; i < small.size(); i += 2) pool.Release(small[i]);
  ASSERT_THAT(pool.Acquire({{.size = MiB(24)}}), SizeIs(1));
  pool.ExpectBytes(MiB(64), MiB(24), MiB(24));
}

// --- Placing.

TEST_F(PoolTest, WhatIsPlacedIsAlignedAndRoundedUpAndRemembersWhatWasAsked) {
  const std::vector<BufferSpec> specs = {{.size = Bytes(1)},
                                         {.size = Bytes(300), .alignment = KiB(4)},
                                         {.size = KiB(3), .alignment = kSegment}};
  const std::vector<Buffer> buffers = pool_.Acquire(specs);
  ASSERT_THAT(buffers, SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(buffers[i].place.begin() % specs[i].alignment, Bytes(0));
    EXPECT_EQ(buffers[i].place.size(), AlignUp(specs[i].size, kBufferGranule));
    EXPECT_EQ(buffers[i].requested, specs[i].size);
  }
  pool_.ExpectBytes(kSegment, Bytes(256 + 512 + 3'072), Bytes(1 + 300 + 3'072));
}

TEST_F(PoolTest, WhatIsMissingForAllOfItIsToldAtOnceAndNothingIsPlacedBefore) {
  const std::vector<BufferSpec> specs = {
      {.size = KiB(10), .kind = BufferKind::kIo},
      {.size = kSegment * 2},
      {.size = kSegment + KiB(1), .kind = BufferKind::kWorkspace},
      {.size = KiB(20)},
  };
  const Pool::Placement placement = pool_->Place(specs);
  EXPECT_FALSE(placement.placed());
  EXPECT_TRUE(placement.possible());
  EXPECT_THAT(placement.missing,
              ::testing::UnorderedElementsAre(
                  Bytes(0), kSegment, kSegment * 2, Begin(BufferKind::kWorkspace),
                  Begin(BufferKind::kWorkspace) + kSegment, Begin(BufferKind::kIo)));
  EXPECT_THAT(pool_->segments(), IsEmpty());
  // All but one of them are not enough.
  pool_.Bring({placement.missing.begin() + 1, placement.missing.end()});
  EXPECT_THAT(pool_->Place(specs).missing, ElementsAre(placement.missing[0]));
  pool_.Bring({placement.missing[0]});
  const std::vector<Buffer> buffers = pool_.Add(specs, pool_->Place(specs));
  ASSERT_THAT(buffers, SizeIs(4));
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(buffers[i].kind, specs[i].kind);
}

TEST_F(PoolTest, WhatCannotBePlacedAsAWholeLeavesNoTrace) {
  const std::vector<Buffer> held = pool_.Acquire({{.size = KiB(40)}, {.size = kSegment}});
  pool_.Release(held[1]);
  ASSERT_TRUE(pool_->Unused(Bytes(0)));
  pool_.now += seconds(1);
  const PoolBytes before = pool_->bytes();
  const Bytes largest = pool_->LargestFree(100);
  const Bytes largest_now = pool_->LargestFree(0);
  const Instant unused_since = pool_->Find(Bytes(0))->unused_since;

  // The first fits, the second would with more Segments, the last never does.
  const std::vector<BufferSpec> specs = {
      {.size = KiB(8)}, {.size = kKind, .kind = BufferKind::kWorkspace}, {.size = kKind}};
  const Pool::Placement placement = pool_->Place(specs);
  EXPECT_FALSE(placement.placed());
  EXPECT_FALSE(placement.possible());
  EXPECT_THAT(placement.missing, IsEmpty());
  pool_->Validate();
  pool_.ExpectBytes(before.segments, before.blocks, before.requested);
  EXPECT_EQ(pool_->LargestFree(100), largest);
  EXPECT_EQ(pool_->LargestFree(0), largest_now);
  EXPECT_EQ(pool_->Find(Bytes(0))->unused_since, unused_since);
  EXPECT_TRUE(pool_->Unused(Bytes(0)));
  EXPECT_THAT(pool_.Acquire({{.size = kKind, .kind = BufferKind::kWorkspace}}), SizeIs(1));
}

TEST_F(PoolTest, EachOfManyMayFitWhereNotAllDo) {
  const std::vector<BufferSpec> two(2, {.size = kSegment * 8});
  EXPECT_TRUE(pool_->Place(two).possible());
  const std::vector<BufferSpec> three(3, two[0]);
  EXPECT_FALSE(pool_->Place(three).possible());
  EXPECT_THAT(pool_.Acquire(two), SizeIs(2));
}

TEST_F(PoolTest, WhatIsLargerThanEverythingIsNotPossible) {
  for (const Bytes size : {kKind + Bytes(1), Bytes(UINT64_MAX - 100), Bytes(UINT64_MAX)}) {
    EXPECT_FALSE(pool_->Place(std::vector<BufferSpec>{{.size = size}}).possible());
    EXPECT_FALSE(pool_->PlaceSegments(BufferKind::kIo, size).possible());
  }
}

TEST_F(PoolTest, WhatIsComingIsNotPlannedTwice) {
  const std::vector<BufferSpec> whole = {{.size = kSegment}};
  ASSERT_THAT(pool_->Place(whole).missing, ElementsAre(Bytes(0)));
  pool_->Expect(Bytes(0));
  EXPECT_THAT(pool_->Place(whole).missing, ElementsAre(kSegment));
  EXPECT_EQ(pool_->bytes().coming, kSegment);
  pool_->Abandon(Bytes(0));
  EXPECT_EQ(pool_->bytes().coming, Bytes(0));
  EXPECT_THAT(pool_->Place(whole).missing, ElementsAre(Bytes(0)));
}

TEST_F(PoolTest, WhatStaysOfOneKindDoesNotCutUpAnother) {
  std::vector<Buffer> activations;
  std::vector<Buffer> io;
  for (int i = 0; i < 16; ++i) {
    activations.push_back(pool_.Acquire({{.size = KiB(32)}}).at(0));
    io.push_back(pool_.Acquire({{.size = KiB(1), .kind = BufferKind::kIo}}).at(0));
  }
  for (const Buffer& buffer : activations) {
    EXPECT_LT(buffer.place.end(), Begin(BufferKind::kWorkspace));
    pool_.Release(buffer);
  }
  for (const Buffer& buffer : io) EXPECT_GE(buffer.place.begin(), Begin(BufferKind::kIo));
  EXPECT_EQ(pool_->LargestFree(0), kSegment * 8);
  for (const auto& [offset, segment] : pool_->segments()) {
    EXPECT_EQ(pool_->Unused(offset), offset < Begin(BufferKind::kWorkspace));
  }
}

// --- What is held.

TEST_F(PoolTest, ABufferIsReleasedOnce) {
  const std::vector<Buffer> buffers = pool_.Acquire({{.size = KiB(3)}, {.size = Bytes(100)}});
  pool_.ExpectBytes(kSegment, KiB(3) + Bytes(256), KiB(3) + Bytes(100));
  pool_.Release(buffers[0]);
  pool_.ExpectBytes(kSegment, Bytes(256), Bytes(100));
  EXPECT_FALSE(pool_->Release(buffers[0].id, pool_.now));
  EXPECT_FALSE(pool_->Release(BufferId(77), pool_.now));
  pool_.Release(buffers[1]);
  pool_.ExpectBytes(kSegment, Bytes(0), Bytes(0));
  EXPECT_EQ(pool_->buffer_count(), 0U);
}

TEST_F(PoolTest, ASegmentIsUnusedFromItsLastReleaseOn) {
  const std::vector<Buffer> buffers =
      pool_.Acquire({{.size = kSegment + KiB(32)}, {.size = KiB(32)}});
  EXPECT_FALSE(pool_->Unused(Bytes(0)));
  pool_.now += seconds(1);
  pool_.Release(buffers[0]);
  EXPECT_TRUE(pool_->Unused(Bytes(0)));
  EXPECT_FALSE(pool_->Unused(kSegment));
  EXPECT_EQ(pool_->Find(Bytes(0))->unused_since, kStart + seconds(1));
  pool_.now += seconds(1);
  pool_.Release(buffers[1]);
  EXPECT_TRUE(pool_->Unused(kSegment));
  EXPECT_EQ(pool_->Find(Bytes(0))->unused_since, kStart + seconds(1));
  EXPECT_EQ(pool_->Find(kSegment)->unused_since, kStart + seconds(2));
  pool_->Expect(kSegment * 2);
  EXPECT_FALSE(pool_->Unused(kSegment * 2));
  pool_->Fill(kSegment * 2, pool_.MakeSegment(kSegment), pool_.now);
  EXPECT_TRUE(pool_->Unused(kSegment * 2));
  EXPECT_EQ(pool_->Find(kSegment * 2)->unused_since, pool_.now);
  EXPECT_FALSE(pool_->Unused(kSegment * 3));
}

TEST_F(PoolTest, GrantedSegmentsAreUsedUntilTheyAreClosed) {
  const std::vector<Bytes> granted =
      pool_.AcquireSegments(BufferKind::kWorkspace, kSegment * 2 + Bytes(1));
  const Bytes begin = Begin(BufferKind::kWorkspace);
  ASSERT_THAT(granted, ElementsAre(begin, begin + kSegment, begin + kSegment * 2));
  pool_.ExpectBytes(kSegment * 3, kSegment * 3, kSegment * 3);
  for (const Bytes offset : granted) EXPECT_FALSE(pool_->Unused(offset));
  EXPECT_EQ(pool_->buffer_count(), 0U);

  pool_.now += seconds(1);
  pool_->Close(granted[1], pool_.now);
  pool_->Validate();
  pool_.ExpectBytes(kSegment * 3, kSegment * 2, kSegment * 2);
  EXPECT_EQ(pool_->Find(granted[1])->unused_since, pool_.now);
  EXPECT_FALSE(pool_->Find(granted[1])->granted.has_value());
  // What is leaving is neither handed out nor grown over.
  EXPECT_EQ(pool_->LargestFree(0), Bytes(0));
  EXPECT_THAT(pool_->PlaceSegments(BufferKind::kWorkspace, kSegment).missing,
              ElementsAre(begin + kSegment * 3));
  EXPECT_EQ(pool_->Take(granted[1]).size(), kSegment);
  pool_->Validate();
  pool_.ExpectBytes(kSegment * 2, kSegment * 2, kSegment * 2);
  EXPECT_EQ(pool_->Find(granted[1]), nullptr);
  EXPECT_THAT(pool_->PlaceSegments(BufferKind::kWorkspace, kSegment).missing,
              ElementsAre(granted[1]));
}

TEST_F(PoolTest, GrantedSegmentsComeOutOfWholeFreeOnes) {
  const std::vector<Buffer> buffers = pool_.Acquire({{.size = KiB(32)}, {.size = kSegment * 2}});
  pool_.Release(buffers[1]);
  // Beside the first Buffer, one and a half of what is there is free, and begins within a Segment.
  const std::vector<Bytes> granted = pool_.AcquireSegments(BufferKind::kActivation, kSegment);
  ASSERT_THAT(granted, SizeIs(1));
  EXPECT_EQ(granted[0] % kSegment, Bytes(0));
  EXPECT_THAT(pool_->segments(), SizeIs(3));
}

TEST_F(PoolTest, BytesAreUnansweredUntilTheSegmentIsTaken) {
  const std::vector<Buffer> buffers = pool_.Acquire({{.size = kSegment * 2}});
  pool_.Release(buffers[0]);
  pool_->Close(Bytes(0), pool_.now);
  pool_->MarkUnanswered(Bytes(0));
  pool_->Validate();
  EXPECT_EQ(pool_->bytes().unanswered, kSegment);
  EXPECT_EQ(pool_->bytes().free(), kSegment);
  (void)pool_->Take(Bytes(0));
  pool_->Validate();
  EXPECT_EQ(pool_->bytes().unanswered, Bytes(0));
  EXPECT_EQ(pool_->bytes().free(), kSegment);
}

TEST_F(PoolTest, EverythingMayEndAtOnce) {
  const std::vector<Buffer> buffers =
      pool_.Acquire({{.size = KiB(100)}, {.size = KiB(10), .kind = BufferKind::kIo}});
  pool_.AcquireSegments(BufferKind::kWorkspace, kSegment * 2);
  const Bytes coming = pool_->PlaceSegments(BufferKind::kIo, kSegment).missing.at(0);
  pool_->Expect(coming);
  pool_->Close(pool_.AcquireSegments(BufferKind::kWorkspace, kSegment).at(0), pool_.now);
  const std::vector<BufferId> released = pool_->ReleaseAll(pool_.now);
  pool_->Validate();
  EXPECT_THAT(released, ::testing::UnorderedElementsAre(buffers[0].id, buffers[1].id));
  EXPECT_EQ(pool_->bytes().blocks, Bytes(0));
  EXPECT_EQ(pool_->bytes().requested, Bytes(0));
  EXPECT_EQ(pool_->bytes().coming, kSegment);
  for (const auto& [offset, segment] : pool_->segments()) {
    EXPECT_EQ(segment.closed, offset != coming);
  }
}

TEST_F(PoolTest, TheLargestHoleIsNamedByItsNeighbours) {
  const std::vector<BufferSpec> specs(4, {.size = KiB(16)});
  std::vector<Buffer> buffers = pool_.Acquire(specs);
  ASSERT_THAT(buffers, SizeIs(4));
  std::sort(buffers.begin(), buffers.end(),
            [](const Buffer& a, const Buffer& b) { return a.place.begin() < b.place.begin(); });
  // Nothing is free: there is nothing to wait beside.
  EXPECT_THAT(pool_->AroundLargestHole(BufferKind::kActivation), IsEmpty());
  EXPECT_THAT(pool_->AroundLargestHole(BufferKind::kIo), IsEmpty());
  pool_.Release(buffers[1]);
  const std::vector<Buffer> around = pool_->AroundLargestHole(BufferKind::kActivation);
  ASSERT_THAT(around, SizeIs(2));
  EXPECT_EQ(around[0].id, buffers[0].id);
  EXPECT_EQ(around[1].id, buffers[2].id);
}

using PoolDeathTest = PoolTest;

TEST_F(PoolDeathTest, SomethingIsAskedFor) {
  EXPECT_DEATH((void)pool_->Place({}), "CHECK failed");
  EXPECT_DEATH((void)pool_->Place(std::vector<BufferSpec>{{.size = Bytes(0)}}), "CHECK failed");
  EXPECT_DEATH((void)pool_->PlaceSegments(BufferKind::kIo, Bytes(0)), "CHECK failed");
}

TEST_F(PoolDeathTest, ASegmentComesOnceAndHasTheSizeOfAll) {
  pool_->Expect(Bytes(0));
  EXPECT_DEATH(pool_->Expect(Bytes(0)), "CHECK failed");
  EXPECT_DEATH(pool_->Fill(Bytes(0), pool_.MakeSegment(kSegment * 2), kStart), "CHECK failed");
  pool_->Fill(Bytes(0), pool_.MakeSegment(kSegment), kStart);
  EXPECT_DEATH(pool_->Fill(Bytes(0), pool_.MakeSegment(kSegment), kStart), "CHECK failed");
  EXPECT_DEATH(pool_->Abandon(Bytes(0)), "CHECK failed");
}

TEST_F(PoolDeathTest, OnlyWhatNobodyUsesOrHasMappedLeaves) {
  const std::vector<Buffer> buffers = pool_.Acquire({{.size = KiB(4)}});
  EXPECT_DEATH(pool_->Close(Bytes(0), kStart), "CHECK failed");
  pool_.Release(buffers[0]);
  EXPECT_DEATH((void)pool_->Take(Bytes(0)), "CHECK failed");
  EXPECT_DEATH(pool_->MarkUnanswered(Bytes(0)), "CHECK failed");
  pool_->Close(Bytes(0), kStart);
  EXPECT_DEATH(pool_->Close(Bytes(0), kStart), "CHECK failed");
  pool_->Find(Bytes(0))->share = ShareSerial(1);
  EXPECT_DEATH((void)pool_->Take(Bytes(0)), "CHECK failed");
  pool_->Find(Bytes(0))->share = ShareSerial();
  pool_->Find(Bytes(0))->exports = 1;
  EXPECT_DEATH((void)pool_->Take(Bytes(0)), "CHECK failed");
  pool_->Find(Bytes(0))->exports = 0;
  EXPECT_DEATH((void)pool_->Take(kSegment), "CHECK failed");
  (void)pool_->Take(Bytes(0));
}

}  // namespace
}  // namespace tenure
