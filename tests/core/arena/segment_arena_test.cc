#include "core/arena/segment_arena.h"

#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "tests/support/small_device.h"

namespace tenure {
namespace {

constexpr Bytes kGranule = SmallDevice::kGranule;
constexpr Bytes kSegment = KiB(64);

class SegmentArenaTest : public ::testing::Test {
 protected:
  // Does what a load does with a claim, and returns the Region's Segments.
  std::vector<Segment> Fulfil(SegmentArena::Claim claim) {
    for (Segment& evicted : claim.evicted) arena_.Destroyed(evicted.size());
    claim.evicted.clear();
    std::vector<Segment> segments;
    for (SegmentArena::Claim::Slot& slot : claim.slots) {
      if (!slot.segment.has_value()) {
        slot.segment = *device_.CreateSegment(SegmentUse::kWeights, slot.size);
        arena_.Created(slot.size);
      }
      segments.push_back(*std::move(slot.segment));
    }
    return segments;
  }

  Instant now_ = Instant(std::chrono::hours(1));
  SmallDevice device_{"host:0"};
  SegmentArena arena_{{.capacity = KiB(256), .segment_size = kSegment, .granule = kGranule}};
};

TEST(SegmentSizesTest, ARegionIsStandardSegmentsAndThenFallingPowersOfTwo) {
  EXPECT_TRUE(SegmentSizes(Bytes(0), kSegment, kGranule).empty());
  EXPECT_EQ(SegmentSizes(Bytes(1), kSegment, kGranule), std::vector<Bytes>{KiB(4)});
  EXPECT_EQ(SegmentSizes(KiB(128), kSegment, kGranule), (std::vector<Bytes>{kSegment, kSegment}));
  EXPECT_EQ(SegmentSizes(KiB(64 + 28), kSegment, kGranule),
            (std::vector<Bytes>{kSegment, KiB(16), KiB(8), KiB(4)}));
}

TEST(SegmentSizesTest, LessThanOneGranuleIsWasted) {
  std::mt19937 random(7);
  for (int i = 0; i < 1000; ++i) {
    const Bytes size(std::uniform_int_distribution<uint64_t>(0, 1'000'000)(random));
    const std::vector<Bytes> sizes = SegmentSizes(size, kSegment, kGranule);
    const Bytes sum = std::accumulate(sizes.begin(), sizes.end(), Bytes(0));
    EXPECT_GE(sum, size);
    EXPECT_LT(sum - size, kGranule);
  }
}

TEST_F(SegmentArenaTest, WhatSurvivorsMapIsNotThereToBeClaimed) {
  arena_.SetSurviving(KiB(100));
  EXPECT_EQ(arena_.stranded(), KiB(100));
  EXPECT_EQ(arena_.available(), KiB(156));
  EXPECT_FALSE(arena_.ClaimRoom(KiB(160)).has_value());
  ASSERT_TRUE(arena_.ClaimRoom(KiB(156)).has_value());
  arena_.Validate();
  arena_.SetSurviving(Bytes(0));
  EXPECT_TRUE(arena_.ClaimRoom(KiB(100)).has_value());
}

TEST_F(SegmentArenaTest, SurvivorsCountOnlyAsFarAsThereIsRoomForThem) {
  std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(KiB(200));
  arena_.SetSurviving(KiB(100));
  EXPECT_EQ(arena_.stranded(), KiB(56));
  EXPECT_EQ(arena_.unbacked(), Bytes(0));
  arena_.Validate();
  arena_.Return(Fulfil(*std::move(claim)), Bytes(0), now_);
  EXPECT_EQ(arena_.stranded(), KiB(56));  // cached Segments are still held
  EXPECT_EQ(arena_.available(), KiB(200));

  std::optional<SegmentArena::Claim> again = arena_.ClaimRoom(KiB(200));
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->evicted.empty());
  arena_.Return(Fulfil(*std::move(again)), Bytes(0), now_);
  std::optional<SegmentArena::Claim> other = arena_.ClaimRoom(KiB(4));
  ASSERT_TRUE(other.has_value());
  EXPECT_FALSE(other->evicted.empty());
  Bytes evicted;
  for (const Segment& segment : other->evicted) evicted += segment.size();
  EXPECT_EQ(evicted, KiB(4) + other->spare);
  arena_.Validate();
}

TEST_F(SegmentArenaTest, WhatIsPinnedAddsToWhatSurvivorsMap) {
  arena_.SetSurviving(KiB(100));
  arena_.SetPinned(KiB(50));
  EXPECT_EQ(arena_.stranded(), KiB(150));
  EXPECT_EQ(arena_.available(), KiB(106));
  arena_.SetSurviving(Bytes(0));
  EXPECT_EQ(arena_.stranded(), KiB(50));
  arena_.SetPinned(Bytes(0));
  EXPECT_EQ(arena_.available(), KiB(256));
}

TEST_F(SegmentArenaTest, AClaimIsOverdrawnIfWhatItEvictedIsPinned) {
  arena_.Return(Fulfil(*arena_.ClaimRoom(KiB(256))), Bytes(0), now_);
  std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(KiB(32));
  ASSERT_TRUE(claim.has_value());
  ASSERT_EQ(claim->evicted.size(), 1U);
  EXPECT_EQ(claim->spare, KiB(32));
  claim->evicted.clear();
  arena_.Destroyed(KiB(32));
  arena_.Left(KiB(32));
  EXPECT_FALSE(arena_.overdrawn());
  arena_.SetPinned(KiB(32));
  EXPECT_FALSE(arena_.overdrawn());  // that much of it was spare
  arena_.SetPinned(KiB(64));
  EXPECT_TRUE(arena_.overdrawn());
  arena_.Validate();
  arena_.Return({}, claim->bytes, now_);
  EXPECT_FALSE(arena_.overdrawn());
  EXPECT_EQ(arena_.stranded(), KiB(64));
  EXPECT_EQ(arena_.available(), KiB(192));
  arena_.Validate();
}

TEST_F(SegmentArenaTest, BytesAreClaimedBeforeMemoryExists) {
  const std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(KiB(200));
  ASSERT_TRUE(claim.has_value());
  EXPECT_EQ(arena_.claimed(), KiB(200));
  EXPECT_EQ(arena_.reserved(), Bytes(0));
  EXPECT_FALSE(arena_.ClaimRoom(KiB(60)).has_value());
  EXPECT_TRUE(arena_.ClaimRoom(KiB(56)).has_value());
  EXPECT_EQ(arena_.available(), Bytes(0));
}

TEST_F(SegmentArenaTest, CachedSegmentsOfASizeServeAnyRegion) {
  arena_.Return(Fulfil(*arena_.ClaimRoom(KiB(64 + 8))), Bytes(0), now_);
  EXPECT_EQ(arena_.cached(), KiB(72));
  const std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(KiB(64 + 12));
  ASSERT_TRUE(claim.has_value());
  EXPECT_TRUE(claim->slots[0].segment.has_value());   // 64 KiB
  EXPECT_TRUE(claim->slots[1].segment.has_value());   // 8 KiB
  EXPECT_FALSE(claim->slots[2].segment.has_value());  // 4 KiB
  EXPECT_TRUE(claim->evicted.empty());
  arena_.Validate();
}

TEST_F(SegmentArenaTest, EveryFreeByteIsUsable) {
  arena_.Return(Fulfil(*arena_.ClaimRoom(KiB(28))), Bytes(0), now_);
  std::optional<SegmentArena::Claim> all = arena_.ClaimRoom(KiB(256));
  ASSERT_TRUE(all.has_value());
  EXPECT_EQ(all->evicted.size(), 3U);
  const std::vector<Segment> region = Fulfil(*std::move(all));
  EXPECT_EQ(arena_.reserved(), KiB(256));
  EXPECT_EQ(device_.counters().bytes_destroyed, KiB(28));
}

TEST_F(SegmentArenaTest, AFailedClaimGivesBackWhatNeverBecameMemory) {
  std::optional<SegmentArena::Claim> claim = arena_.ClaimRoom(KiB(72));
  std::vector<Segment> created;
  created.push_back(*device_.CreateSegment(SegmentUse::kWeights, KiB(64)));
  arena_.Created(KiB(64));
  arena_.Return(std::move(created), KiB(8), now_);
  EXPECT_EQ(arena_.claimed(), Bytes(0));
  EXPECT_EQ(arena_.cached(), KiB(64));
  EXPECT_EQ(arena_.unbacked(), KiB(192));
}

TEST_F(SegmentArenaTest, LeavingBytesCannotBeClaimedUntilTheyHaveLeft) {
  arena_.Return(Fulfil(*arena_.ClaimRoom(KiB(128))), Bytes(0), now_);
  EXPECT_TRUE(arena_.TakeCachedBefore(now_ - std::chrono::seconds(1)).empty());
  std::vector<Segment> leaving = arena_.TakeCachedBefore(now_);
  EXPECT_EQ(leaving.size(), 2U);
  EXPECT_EQ(arena_.available(), KiB(128));
  EXPECT_FALSE(arena_.ClaimRoom(KiB(256)).has_value());
  leaving.clear();
  arena_.Left(KiB(128));
  EXPECT_EQ(arena_.reserved(), Bytes(0));
  EXPECT_TRUE(arena_.ClaimRoom(KiB(256)).has_value());
}

TEST(SingleSegmentTest, ARegionIsOneSegmentWhateverItsSize) {
  SegmentArena arena({.capacity = KiB(256),
                      .segment_size = kSegment,
                      .granule = kGranule,
                      .single_segment = true});
  const std::optional<SegmentArena::Claim> claim = arena.ClaimRoom(kSegment * 3 + Bytes(1));
  ASSERT_TRUE(claim.has_value());
  ASSERT_EQ(claim->slots.size(), 1U);
  EXPECT_EQ(claim->slots[0].size, kSegment * 3 + kGranule);
  EXPECT_EQ(claim->bytes, claim->slots[0].size);
  EXPECT_TRUE(arena.ClaimRoom(Bytes(0))->slots.empty());
}

}  // namespace
}  // namespace tenure
