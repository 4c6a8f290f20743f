#include <gtest/gtest.h>

#include "core/arena/offset_allocator.h"

namespace tenure {
namespace {

using Block = OffsetAllocator::Block;

constexpr Bytes kGranule = OffsetAllocator::kGranule;

TEST(OffsetAllocatorDeathTest, ABlockIsFreedOnce) {
  OffsetAllocator allocator;
  allocator.Add(Range(Bytes(0), MiB(1)));
  const Block block = *allocator.Allocate(KiB(4));
  const Block other = *allocator.Allocate(KiB(4));
  allocator.Free(block);
  EXPECT_DEATH(allocator.Free(block), "CHECK failed");
  allocator.Free(other);
  EXPECT_DEATH(allocator.Free(other), "CHECK failed");
  EXPECT_DEATH(allocator.Free(Block()), "CHECK failed");
  EXPECT_DEATH(allocator.Free(Block({.offset = {}, .size = KiB(4), .node = 1000})), "CHECK failed");
}

TEST(OffsetAllocatorDeathTest, ABlockIsKnownByItsOffsetAndSizeToo) {
  OffsetAllocator allocator;
  allocator.Add(Range(Bytes(0), MiB(1)));
  Block block = *allocator.Allocate(KiB(4));
  const Block before = block;
  const Block rest = allocator.Split(block, KiB(2));
  EXPECT_DEATH(allocator.Free(before), "CHECK failed");
  EXPECT_DEATH(allocator.Free({.offset = rest.offset, .size = rest.size, .node = block.node}),
               "CHECK failed");
}

TEST(OffsetAllocatorDeathTest, ARequestHasASizeAndAnAlignment) {
  OffsetAllocator allocator;
  EXPECT_DEATH(static_cast<void>(allocator.Allocate(Bytes(0))), "CHECK failed");
  EXPECT_DEATH(static_cast<void>(allocator.Allocate(KiB(1), Bytes(0))), "CHECK failed");
  EXPECT_DEATH(static_cast<void>(allocator.Allocate(KiB(1), Bytes(768))), "CHECK failed");
}

TEST(OffsetAllocatorDeathTest, ABlockIsSplitAtAGranuleWithinIt) {
  OffsetAllocator allocator;
  allocator.Add(Range(Bytes(0), MiB(1)));
  Block block = *allocator.Allocate(KiB(4));
  EXPECT_DEATH(allocator.Split(block, Bytes(0)), "CHECK failed");
  EXPECT_DEATH(allocator.Split(block, Bytes(100)), "CHECK failed");
  EXPECT_DEATH(allocator.Split(block, KiB(4)), "CHECK failed");
  Block freed = block;
  allocator.Free(block);
  EXPECT_DEATH(allocator.Split(freed, KiB(1)), "CHECK failed");
}

TEST(OffsetAllocatorDeathTest, WhatIsAddedIsNewAndWholeGranules) {
  OffsetAllocator allocator;
  allocator.Add(Range(MiB(1), MiB(2)));
  *allocator.Allocate(KiB(512));
  EXPECT_DEATH(allocator.Add(Range(MiB(1), MiB(2))), "CHECK failed");
  EXPECT_DEATH(allocator.Add(Range(MiB(1) + KiB(4), MiB(1) + KiB(8))), "CHECK failed");
  EXPECT_DEATH(allocator.Add(Range(MiB(2) - kGranule, MiB(3))), "CHECK failed");
  EXPECT_DEATH(allocator.Add(Range(Bytes(0), MiB(1) + kGranule)), "CHECK failed");
  EXPECT_DEATH(allocator.Add(Range(Bytes(0), Bytes(100))), "CHECK failed");
  EXPECT_DEATH(allocator.Add(Range(Bytes(100), kGranule)), "CHECK failed");
  EXPECT_DEATH(allocator.Add(Range(kGranule, kGranule)), "CHECK failed");
}

TEST(OffsetAllocatorDeathTest, WhatIsRemovedIsManagedAndFree) {
  OffsetAllocator allocator;
  allocator.Add(Range(Bytes(0), MiB(1)));
  allocator.Add(Range(MiB(2), MiB(3)));
  const Block block = *allocator.Allocate(KiB(4));
  EXPECT_DEATH(allocator.Remove(Range(block.offset, block.offset + KiB(8))), "CHECK failed");
  EXPECT_DEATH(allocator.Remove(Range(KiB(512), MiB(2))), "CHECK failed");
  EXPECT_DEATH(allocator.Remove(Range(MiB(4), MiB(5))), "CHECK failed");
  EXPECT_DEATH(allocator.Remove(Range(KiB(8), KiB(8))), "CHECK failed");
  EXPECT_DEATH(allocator.Remove(Range(KiB(8), KiB(8) + Bytes(1))), "CHECK failed");
}

}  // namespace
}  // namespace tenure
