#include "core/arena/offset_allocator.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

namespace tenure {
namespace {

using Block = OffsetAllocator::Block;
using Usage = OffsetAllocator::Usage;

constexpr Bytes kGranule = OffsetAllocator::kGranule;

class OffsetAllocatorTest : public ::testing::Test {
 protected:
  ~OffsetAllocatorTest() override { allocator_.Validate(); }

  Block MustAllocate(Bytes size, Bytes alignment = kGranule) {
    const std::optional<Block> block = allocator_.Allocate(size, alignment);
    EXPECT_TRUE(block.has_value());
    allocator_.Validate();
    return block.value_or(Block());
  }

  void Free(const Block& block) {
    allocator_.Free(block);
    allocator_.Validate();
  }

  // Leaves exactly these holes, in this order, with a block of one granule behind each.
  void MakeHoles(const std::vector<Bytes>& sizes) {
    Bytes end;
    for (const Bytes size : sizes) end += size + kGranule;
    allocator_.Add(Range(Bytes(0), end));
    std::vector<Block> blocks;
    for (const Bytes size : sizes) {
      blocks.push_back(MustAllocate(size));
      MustAllocate(kGranule);
    }
    for (const Block& block : blocks) Free(block);
  }

  std::vector<Range> Holes(Bytes at_least) const {
    std::vector<Range> holes;
    allocator_.ForEachFree(at_least, [&holes](Range hole) { holes.push_back(hole); });
    std::sort(holes.begin(), holes.end(), [](Range a, Range b) { return a.begin() < b.begin(); });
    return holes;
  }

  OffsetAllocator allocator_;
};

TEST_F(OffsetAllocatorTest, NothingIsHandedOutBeforeMemoryIsAdded) {
  EXPECT_FALSE(allocator_.Allocate(Bytes(1)).has_value());
  EXPECT_EQ(allocator_.usage(), Usage());
}

// Field case 1: every second of 32 buffers is freed, half of the memory is free and a quarter of it
// more cannot be had; all of it can once the others are freed, because holes join.
TEST_F(OffsetAllocatorTest, FreedBuffersJoinUntilALargeOneFits) {
  allocator_.Add(Range(Bytes(0), MiB(64)));
  Free(MustAllocate(MiB(32)));
  std::vector<Block> buffers;
  for (int i = 0; i < 32; ++i) buffers.push_back(MustAllocate(MiB(2)));
  EXPECT_EQ(allocator_.usage(), Usage({.used = MiB(64), .free = Bytes(0), .largest_free = {}}));
  for (size_t i = 0; i < buffers.size(); i += 2) Free(buffers[i]);
  EXPECT_EQ(allocator_.usage(), Usage({.used = MiB(32), .free = MiB(32), .largest_free = MiB(2)}));
  EXPECT_FALSE(allocator_.Allocate(MiB(24)).has_value());
  allocator_.Validate();
  for (size_t i = 1; i < buffers.size(); i += 2) Free(buffers[i]);
  EXPECT_EQ(Holes(Bytes(0)), std::vector<Range>{Range(Bytes(0), MiB(64))});
  EXPECT_EQ(MustAllocate(MiB(64)).offset, Bytes(0));
}

TEST_F(OffsetAllocatorTest, ABlockIsWhatWasAskedRoundedUpToTheGranule) {
  allocator_.Add(Range(KiB(4), KiB(8)));
  const Block one = MustAllocate(Bytes(1));
  EXPECT_EQ(one.offset, KiB(4));
  EXPECT_EQ(one.size, kGranule);
  const Block more = MustAllocate(kGranule + Bytes(1));
  EXPECT_EQ(more.offset, KiB(4) + kGranule);
  EXPECT_EQ(more.size, kGranule * 2);
  EXPECT_EQ(allocator_.usage().used, kGranule * 3);
}

TEST_F(OffsetAllocatorTest, ABlockCanBeFreedInAnyOrderAmongItsNeighbours) {
  for (const std::vector<size_t>& order : std::vector<std::vector<size_t>>{
           {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}) {
    OffsetAllocator allocator;
    allocator.Add(Range(Bytes(0), kGranule * 3));
    std::vector<Block> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(*allocator.Allocate(kGranule));
    for (const size_t i : order) {
      allocator.Free(blocks[i]);
      allocator.Validate();
    }
    EXPECT_EQ(allocator.usage().largest_free, kGranule * 3);
  }
}

TEST_F(OffsetAllocatorTest, AHoleThatFitsExactlyIsTakenWhole) {
  // These lie in one bin, whose lower end is 32 KiB: only a look at the holes shows which fit.
  MakeHoles({KiB(32), KiB(32) + kGranule, KiB(32) + kGranule * 2, KiB(32) + kGranule * 3});
  EXPECT_EQ(MustAllocate(KiB(32) + kGranule * 3).size, KiB(32) + kGranule * 3);
  EXPECT_EQ(Holes(Bytes(0)).size(), 3U);
}

TEST_F(OffsetAllocatorTest, TheOnlyHoleThatFitsIsFoundHoweverManyShareItsBin) {
  std::vector<Bytes> sizes(20, MiB(1));
  sizes[0] = MiB(1) + KiB(16);
  MakeHoles(sizes);  // freed in this order, so the one is looked at last
  EXPECT_EQ(allocator_.usage().largest_free, MiB(1) + KiB(16));
  EXPECT_EQ(MustAllocate(MiB(1) + KiB(16)).offset, Bytes(0));
  EXPECT_FALSE(allocator_.Allocate(MiB(1) + KiB(16)).has_value());
}

TEST_F(OffsetAllocatorTest, ASmallRequestTakesTheSmallestHoleThatWillDo) {
  MakeHoles({MiB(64), KiB(64), MiB(1), KiB(8), MiB(2)});
  EXPECT_EQ(MustAllocate(KiB(5)).size, KiB(5));
  EXPECT_EQ(Holes(KiB(4)).size(), 4U);  // the hole of 8 KiB was cut
  EXPECT_EQ(MustAllocate(KiB(60)).size, KiB(60));
  EXPECT_EQ(MustAllocate(KiB(900)).size, KiB(900));
  EXPECT_EQ(MustAllocate(MiB(2)).size, MiB(2));
  EXPECT_EQ(Holes(MiB(1)).size(), 1U);
  EXPECT_EQ(allocator_.usage().largest_free, MiB(64));
}

TEST_F(OffsetAllocatorTest, AFreedHoleServesTheSameSizeAgainAndNotALargerOne) {
  MakeHoles({MiB(10) + kGranule, MiB(512)});
  EXPECT_EQ(MustAllocate(MiB(10) + kGranule).offset, Bytes(0));
  EXPECT_EQ(allocator_.usage().largest_free, MiB(512));
}

TEST_F(OffsetAllocatorTest, WhatLiesBeforeAnAlignedBlockStaysFree) {
  allocator_.Add(Range(kGranule, MiB(8)));
  const Block block = MustAllocate(MiB(1), MiB(2));
  EXPECT_EQ(block.offset, MiB(2));
  EXPECT_EQ(Holes(Bytes(0)), (std::vector<Range>{Range(kGranule, MiB(2)), Range(MiB(3), MiB(8))}));
  Free(block);
  EXPECT_EQ(Holes(Bytes(0)), std::vector<Range>{Range(kGranule, MiB(8))});
}

TEST_F(OffsetAllocatorTest, AnAlignmentBelowTheGranuleCostsNothing) {
  allocator_.Add(Range(Bytes(0), KiB(1)));
  for (int i = 0; i < 4; ++i) MustAllocate(kGranule, Bytes(1) * (1U << i));
  EXPECT_EQ(allocator_.usage().free, Bytes(0));
}

TEST_F(OffsetAllocatorTest, AHoleThatHappensToBeAlignedIsFound) {
  // Only a hole of 4 MiB would surely hold 2 MiB at a multiple of 2 MiB.
  allocator_.Add(Range(MiB(1), MiB(3)));
  allocator_.Add(Range(MiB(4), MiB(6)));
  allocator_.Add(Range(MiB(7), MiB(9)));
  EXPECT_EQ(MustAllocate(MiB(2), MiB(2)).offset, MiB(4));
  EXPECT_FALSE(allocator_.Allocate(MiB(2), MiB(2)).has_value());
  EXPECT_EQ(MustAllocate(MiB(1), MiB(2)).offset % MiB(2), Bytes(0));
}

TEST_F(OffsetAllocatorTest, ALuckyHoleIsFoundInABinAboveTheRequestsOwn) {
  allocator_.Add(Range(MiB(1), MiB(4)));  // 3 MiB, of which 2 MiB begin at 2 MiB
  EXPECT_EQ(MustAllocate(MiB(2), MiB(2)).offset, MiB(2));
}

TEST_F(OffsetAllocatorTest, SizesAndAlignmentsBeyondAllBoundsAreRefused) {
  const Bytes most(~uint64_t{0});
  const Bytes top(uint64_t{1} << 63);
  allocator_.Add(Range(kGranule, AlignDown(most, kGranule)));
  EXPECT_FALSE(allocator_.Allocate(most).has_value());
  EXPECT_FALSE(allocator_.Allocate(most, top).has_value());
  EXPECT_FALSE(allocator_.Allocate(top, top).has_value());
  EXPECT_FALSE(allocator_.Allocate(top + kGranule * 2, top).has_value());
  EXPECT_EQ(MustAllocate(kGranule, top).offset, top);
  EXPECT_FALSE(allocator_.Allocate(kGranule, top).has_value());
  EXPECT_EQ(allocator_.usage().largest_free, top - kGranule);
  MustAllocate(top - kGranule);
}

TEST_F(OffsetAllocatorTest, NoBlockSpansAGap) {
  allocator_.Add(Range(Bytes(0), MiB(2)));
  allocator_.Add(Range(MiB(4), MiB(6)));
  EXPECT_EQ(allocator_.usage().largest_free, MiB(2));
  EXPECT_FALSE(allocator_.Allocate(MiB(3)).has_value());
  const Block left = MustAllocate(MiB(2));
  const Block right = MustAllocate(MiB(2));
  Free(left);
  Free(right);
  EXPECT_EQ(Holes(Bytes(0)).size(), 2U);
}

TEST_F(OffsetAllocatorTest, RangesThatTouchAreOne) {
  allocator_.Add(Range(MiB(2), MiB(4)));
  allocator_.Add(Range(MiB(6), MiB(8)));
  allocator_.Add(Range(Bytes(0), MiB(2)));
  EXPECT_EQ(allocator_.usage().largest_free, MiB(4));
  allocator_.Validate();
  allocator_.Add(Range(MiB(4), MiB(6)));
  EXPECT_EQ(MustAllocate(MiB(8)).offset, Bytes(0));
}

TEST_F(OffsetAllocatorTest, MemoryThatIsAddedBehindABlockCanBeUsedWithWhatIsFreedBeforeIt) {
  allocator_.Add(Range(Bytes(0), MiB(2)));
  const Block block = MustAllocate(MiB(2));
  allocator_.Add(Range(MiB(2), MiB(4)));
  EXPECT_EQ(allocator_.usage().largest_free, MiB(2));
  Free(block);
  EXPECT_EQ(allocator_.usage().largest_free, MiB(4));
}

TEST_F(OffsetAllocatorTest, WhatIsRemovedIsHandedOutNoMore) {
  allocator_.Add(Range(Bytes(0), MiB(8)));
  const Block first = MustAllocate(MiB(1));
  allocator_.Remove(Range(MiB(4), MiB(6)));
  allocator_.Validate();
  EXPECT_EQ(Holes(Bytes(0)), (std::vector<Range>{Range(MiB(1), MiB(4)), Range(MiB(6), MiB(8))}));
  EXPECT_FALSE(allocator_.Allocate(MiB(4)).has_value());
  Free(first);
  EXPECT_EQ(allocator_.usage(), Usage({.used = {}, .free = MiB(6), .largest_free = MiB(4)}));
  allocator_.Remove(Range(Bytes(0), MiB(4)));
  allocator_.Validate();
  allocator_.Remove(Range(MiB(6), MiB(8)));
  EXPECT_EQ(allocator_.usage(), Usage());
}

TEST_F(OffsetAllocatorTest, ARangeCanComeBack) {
  allocator_.Add(Range(Bytes(0), MiB(6)));
  const Block first = MustAllocate(MiB(2));
  allocator_.Remove(Range(MiB(2), MiB(4)));
  allocator_.Validate();
  const Block last = MustAllocate(MiB(2));
  EXPECT_EQ(last.offset, MiB(4));
  allocator_.Add(Range(MiB(2), MiB(4)));
  allocator_.Validate();
  Free(last);
  Free(first);
  EXPECT_EQ(allocator_.usage().largest_free, MiB(6));
}

TEST_F(OffsetAllocatorTest, ThePartsOfASplitBlockAreFreedOneByOne) {
  allocator_.Add(Range(Bytes(0), MiB(8)));
  Block first = MustAllocate(MiB(4));
  Block second = allocator_.Split(first, MiB(1));
  EXPECT_EQ(first.size, MiB(1));
  EXPECT_EQ(second.offset, MiB(1));
  EXPECT_EQ(second.size, MiB(3));
  const Block third = allocator_.Split(second, kGranule);
  EXPECT_EQ(allocator_.usage().used, MiB(4));
  Free(second);
  EXPECT_EQ(allocator_.usage().free, MiB(4) + kGranule);
  Free(first);
  Free(third);
  EXPECT_EQ(allocator_.usage().largest_free, MiB(8));
}

TEST_F(OffsetAllocatorTest, OnlyHolesThatAreLargeEnoughAreShown) {
  MakeHoles({KiB(64), KiB(65), KiB(66), MiB(1)});
  EXPECT_EQ(Holes(Bytes(0)).size(), 4U);
  EXPECT_EQ(Holes(KiB(65)).size(), 3U);
  EXPECT_EQ(Holes(KiB(66) + Bytes(1)).size(), 1U);
  EXPECT_TRUE(Holes(MiB(2)).empty());
}

TEST_F(OffsetAllocatorTest, TheLargestHoleIsKnownWhenItsEqualsGo) {
  MakeHoles({MiB(3), MiB(2), MiB(3), MiB(3) - KiB(4)});
  EXPECT_EQ(allocator_.usage().largest_free, MiB(3));
  MustAllocate(MiB(3));
  EXPECT_EQ(allocator_.usage().largest_free, MiB(3));
  const Block second = MustAllocate(MiB(3));
  EXPECT_EQ(allocator_.usage().largest_free, MiB(3) - KiB(4));
  Free(second);
  EXPECT_EQ(allocator_.usage().largest_free, MiB(3));
}

}  // namespace
}  // namespace tenure
