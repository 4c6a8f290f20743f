#include "core/device/free_ranges.h"

#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace tenure {
namespace {

Range Of(uint64_t begin, uint64_t end) { return {Bytes(begin), Bytes(end)}; }

TEST(FreeRangesTest, TheFirstPartThatIsLargeEnoughIsTaken) {
  FreeRanges free(Of(100, 200));
  EXPECT_EQ(free.Take(Bytes(30)), Of(100, 130));
  EXPECT_EQ(free.Take(Bytes(30)), Of(130, 160));
  free.Give(Of(100, 130));
  EXPECT_EQ(free.Take(Bytes(40)), Of(160, 200));
  EXPECT_EQ(free.Take(Bytes(20)), Of(100, 120));
  EXPECT_EQ(free.Take(Bytes(11)), std::nullopt);
  EXPECT_EQ(free.Take(Bytes(10)), Of(120, 130));
}

TEST(FreeRangesTest, WhatIsGivenBackJoinsItsNeighbours) {
  FreeRanges free(Of(0, 30));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(free.Take(Bytes(10)).has_value());
  free.Give(Of(0, 10));
  free.Give(Of(20, 30));
  EXPECT_EQ(free.Take(Bytes(20)), std::nullopt);
  free.Give(Of(10, 20));
  EXPECT_EQ(free.Take(Bytes(30)), Of(0, 30));
}

TEST(FreeRangesTest, RandomTakingAndGivingNeverOverlapsAndEndsWhole) {
  std::mt19937 dice(7);
  const Range all = Of(1000, 1000 + 4096);
  FreeRanges free(all);
  std::vector<Range> taken;
  for (int i = 0; i < 20'000; ++i) {
    if (taken.empty() || dice() % 2 == 0) {
      const auto range = free.Take(Bytes(1 + dice() % 300));
      if (!range.has_value()) continue;
      for (const Range& other : taken) {
        ASSERT_TRUE(range->end() <= other.begin() || other.end() <= range->begin());
      }
      ASSERT_TRUE(range->begin() >= all.begin() && range->end() <= all.end());
      taken.push_back(*range);
    } else {
      std::swap(taken[dice() % taken.size()], taken.back());
      free.Give(taken.back());
      taken.pop_back();
    }
  }
  for (const Range& range : taken) free.Give(range);
  EXPECT_EQ(free.Take(all.size()), all);
}

TEST(FreeRangesDeathTest, GivingBackWhatIsFreeIsABugOfTheCaller) {
  FreeRanges free(Of(0, 30));
  EXPECT_DEATH(free.Give(Of(10, 20)), "");
}

}  // namespace
}  // namespace tenure
