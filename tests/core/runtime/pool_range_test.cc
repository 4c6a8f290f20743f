#include "core/runtime/pool_range.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <vector>

namespace tenure {
namespace {

using Block = PoolRange::Block;
using Slots = std::vector<Bytes>;

constexpr Bytes kGranule = OffsetAllocator::kGranule;
constexpr Bytes kSlot = KiB(64);
constexpr uint64_t kSlots = 8;

class PoolRangeTest : public ::testing::Test {
 protected:
  ~PoolRangeTest() override { range_.Validate(); }

  static constexpr Bytes Slot(uint64_t index) { return kBegin + kSlot * index; }
  void Fill(std::initializer_list<uint64_t> slots) {
    for (const uint64_t slot : slots) {
      range_.Expect(Slot(slot));
      range_.Fill(Slot(slot));
    }
  }
  Block Allocate(Bytes size, Bytes alignment = kGranule) {
    return *range_.Allocate(size, alignment);
  }
  Slots Plan(Bytes size, Bytes alignment = kGranule) {
    EXPECT_FALSE(range_.Allocate(size, alignment).has_value());
    return range_.PlanGrowth(size, alignment).value_or(Slots());
  }

  static constexpr Bytes kBegin = kSlot * 16;
  PoolRange range_{Range(kBegin, kBegin + kSlot * kSlots), kSlot};
};

TEST_F(PoolRangeTest, AnEmptyRangeGrowsFromItsBegin) {
  EXPECT_FALSE(range_.Allocate(kGranule, kGranule).has_value());
  EXPECT_EQ(Plan(kGranule), Slots({Slot(0)}));
  EXPECT_EQ(Plan(kSlot), Slots({Slot(0)}));
  EXPECT_EQ(Plan(kSlot + Bytes(1)), Slots({Slot(0), Slot(1)}));
  EXPECT_EQ(Plan(kSlot * kSlots).size(), kSlots);
}

TEST_F(PoolRangeTest, GrowthContinuesTheFreeTail) {
  Fill({0});
  Allocate(KiB(40));
  EXPECT_EQ(Plan(KiB(24) + kSlot), Slots({Slot(1)}));
  EXPECT_EQ(Plan(KiB(24) + kSlot + kGranule), Slots({Slot(1), Slot(2)}));
}

TEST_F(PoolRangeTest, GrowthLeansOnTheFreeHeadBehindAGap) {
  Fill({5});
  const Block head = Allocate(KiB(40));
  Allocate(KiB(24));
  range_.Free(head);
  // Lower slots would do, but more of them.
  EXPECT_EQ(Plan(kSlot), Slots({Slot(0)}));
  EXPECT_EQ(Plan(kSlot + KiB(40)), Slots({Slot(4)}));
  EXPECT_EQ(Plan(kSlot * 2 + KiB(40)), Slots({Slot(3), Slot(4)}));
  EXPECT_EQ(range_.LargestFree(0), KiB(40));
  EXPECT_EQ(range_.LargestFree(1), kSlot + KiB(40));
}

TEST_F(PoolRangeTest, GrowthBridgesAGapBetweenTailAndHead) {
  Fill({0, 2});
  const Block first = Allocate(kSlot);
  const Block second = Allocate(kSlot);
  range_.Free(first);
  range_.Free(second);
  EXPECT_EQ(Plan(kSlot * 3), Slots({Slot(1)}));
  EXPECT_EQ(Plan(kSlot * 3 + kGranule), Slots({Slot(1), Slot(3)}));
}

TEST_F(PoolRangeTest, GrowthBridgesSeveralGaps) {
  Fill({1, 3, 5});
  EXPECT_EQ(Plan(kSlot * 5), Slots({Slot(2), Slot(4)}));
  EXPECT_EQ(range_.LargestFree(2), kSlot * 5);
  EXPECT_EQ(range_.LargestFree(100), kSlot * kSlots);
}

TEST_F(PoolRangeTest, GrowthTakesTheLowestOfTheFewestSlots) {
  Fill({1, 4, 5});
  EXPECT_EQ(Plan(kSlot * 3), Slots({Slot(3)}));
  Allocate(kSlot * 2);
  EXPECT_EQ(Plan(kSlot * 2), Slots({Slot(0)}));
  EXPECT_EQ(Plan(kSlot * 3), Slots({Slot(0), Slot(2)}));
}

TEST_F(PoolRangeTest, WhatIsAlignedMayNotUseAllOfTheFreeTail) {
  Fill({0});
  Allocate(KiB(40));
  EXPECT_EQ(Plan(KiB(88), KiB(8)), Slots({Slot(1)}));
  EXPECT_EQ(Plan(KiB(88), KiB(16)), Slots({Slot(1), Slot(2)}));
  EXPECT_EQ(Plan(KiB(80), KiB(16)), Slots({Slot(1)}));
  EXPECT_EQ(Plan(kSlot, kSlot), Slots({Slot(1)}));
}

TEST_F(PoolRangeTest, WhatFitsNowhereIsNotPlanned) {
  EXPECT_EQ(range_.PlanGrowth(kSlot * kSlots + Bytes(1), kGranule), std::nullopt);
  EXPECT_EQ(range_.PlanGrowth(Bytes(UINT64_MAX), kGranule), std::nullopt);
  EXPECT_EQ(range_.PlanGrowth(Bytes(UINT64_MAX - 1'000), kSlot), std::nullopt);
  Fill({4});
  Allocate(kGranule);
  EXPECT_EQ(Plan(kSlot * 4), Slots({Slot(0), Slot(1), Slot(2), Slot(3)}));
  EXPECT_EQ(Plan(kSlot * 4 + kGranule), Slots());
}

TEST_F(PoolRangeTest, WhatIsComingOrLeavingIsNoRoom) {
  range_.Expect(Slot(2));
  Fill({5});
  range_.Close(Slot(5));
  EXPECT_EQ(range_.LargestFree(kSlots), kSlot * 2);
  EXPECT_EQ(Plan(kSlot * 3), Slots());
  EXPECT_EQ(Plan(kSlot * 2), Slots({Slot(0), Slot(1)}));
  range_.Clear(Slot(5));
  EXPECT_EQ(Plan(kSlot * 5), Slots({Slot(3), Slot(4), Slot(5), Slot(6), Slot(7)}));
  range_.Clear(Slot(2));
  EXPECT_EQ(range_.LargestFree(kSlots), kSlot * kSlots);
}

TEST_F(PoolRangeTest, AClosedSlotIsNotHandedOutAndAClearedOneMayComeAgain) {
  Fill({0, 1});
  range_.Close(Slot(0));
  EXPECT_EQ(Allocate(kGranule).offset, Slot(1));
  EXPECT_FALSE(range_.Allocate(kSlot, kGranule).has_value());
  range_.Clear(Slot(0));
  Fill({0});
  EXPECT_EQ(Allocate(kSlot).offset, Slot(0));
}

TEST_F(PoolRangeTest, ABlockLiesInEverySlotThatItTouches) {
  Fill({0, 1, 2, 3});
  const Block first = Allocate(KiB(40));
  const Block spanning = Allocate(kSlot * 2);
  EXPECT_EQ(range_.BlocksIn(Slot(0)), 2U);
  EXPECT_EQ(range_.BlocksIn(Slot(1)), 1U);
  EXPECT_EQ(range_.BlocksIn(Slot(2)), 1U);
  EXPECT_EQ(range_.BlocksIn(Slot(3)), 0U);
  range_.Free(spanning);
  EXPECT_EQ(range_.BlocksIn(Slot(0)), 1U);
  EXPECT_EQ(range_.BlocksIn(Slot(1)), 0U);
  range_.Close(Slot(1));
  range_.Free(first);
  EXPECT_EQ(range_.BlocksIn(Slot(0)), 0U);
  EXPECT_EQ(range_.BlocksIn(Slot(7)), 0U);
}

TEST_F(PoolRangeTest, ABlockOfWholeSlotsIsCutIntoOneForEach) {
  Fill({0, 1, 2});
  const std::vector<Block> parts = range_.SplitBySlot(Allocate(kSlot * 3));
  ASSERT_EQ(parts.size(), 3U);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(parts[i].offset, Slot(i));
    EXPECT_EQ(parts[i].size, kSlot);
    EXPECT_EQ(range_.BlocksIn(Slot(i)), 1U);
  }
  range_.Free(parts[1]);
  range_.Close(Slot(1));
  range_.Free(parts[2]);
  range_.Free(parts[0]);
  EXPECT_EQ(range_.SplitBySlot(Allocate(kSlot)).size(), 1U);
}

TEST_F(PoolRangeTest, TheLargestHoleIsKnown) {
  EXPECT_EQ(range_.LargestHole(), Range());
  Fill({0, 1, 2});
  Allocate(KiB(40));
  EXPECT_EQ(range_.LargestHole(), Range(Slot(0) + KiB(40), Slot(3)));
  Allocate(KiB(152));
  EXPECT_EQ(range_.LargestHole(), Range());
}

using PoolRangeDeathTest = PoolRangeTest;

TEST_F(PoolRangeDeathTest, ARangeIsMadeOfWholeSlots) {
  EXPECT_DEATH(PoolRange(Range(kGranule, kSlot), kSlot), "CHECK failed");
  EXPECT_DEATH(PoolRange(Range(Bytes(0), kSlot + kGranule), kSlot), "CHECK failed");
  EXPECT_DEATH(PoolRange(Range(Bytes(0), KiB(48)), KiB(48)), "CHECK failed");
}

TEST_F(PoolRangeDeathTest, ASlotGoesThroughItsStatesInOrder) {
  EXPECT_DEATH(range_.Expect(Slot(0) + kGranule), "CHECK failed");
  EXPECT_DEATH(range_.Expect(Slot(kSlots)), "CHECK failed");
  EXPECT_DEATH(range_.Expect(kBegin - kSlot), "CHECK failed");
  EXPECT_DEATH(range_.Fill(Slot(0)), "CHECK failed");
  EXPECT_DEATH(range_.Close(Slot(0)), "CHECK failed");
  EXPECT_DEATH(range_.Clear(Slot(0)), "CHECK failed");
  range_.Expect(Slot(0));
  EXPECT_DEATH(range_.Expect(Slot(0)), "CHECK failed");
  EXPECT_DEATH(range_.Close(Slot(0)), "CHECK failed");
  range_.Fill(Slot(0));
  EXPECT_DEATH(range_.Fill(Slot(0)), "CHECK failed");
  EXPECT_DEATH(range_.Clear(Slot(0)), "CHECK failed");
  range_.Close(Slot(0));
  EXPECT_DEATH(range_.Close(Slot(0)), "CHECK failed");
}

TEST_F(PoolRangeDeathTest, NoBlockLiesInASlotThatIsClosed) {
  Fill({0});
  const Block block = Allocate(kGranule);
  EXPECT_DEATH(range_.Close(Slot(0)), "CHECK failed");
  range_.Free(block);
  range_.Close(Slot(0));
}

TEST_F(PoolRangeDeathTest, OnlyWholeSlotsAreCutBySlot) {
  Fill({0, 1});
  EXPECT_DEATH(range_.SplitBySlot(Allocate(KiB(65))), "CHECK failed");
}

TEST_F(PoolRangeDeathTest, NothingIsAlignedToMoreThanASlot) {
  EXPECT_DEATH((void)range_.PlanGrowth(kGranule, kSlot * 2), "CHECK failed");
}

// Random states of small ranges, each compared with what trying every offset says.
class RandomRange {
 public:
  RandomRange(uint32_t seed, Bytes slot, uint64_t slots)
      : random_(seed), slot_(slot), begin_(slot * 3), range_(Range(begin_, End(slots)), slot) {
    for (uint64_t i = 0; i < slots; ++i) states_[begin_ + slot_ * i] = State::kEmpty;
  }

  void Do(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "step " << step);
      Step();
      range_.Validate();
      CheckPlan();
      CheckLargest();
    }
  }

  int grown() const { return grown_; }

 private:
  enum class State { kEmpty, kComing, kFilled, kClosed };

  Bytes End(uint64_t slots) const { return begin_ + slot_ * slots; }
  Bytes end() const { return End(states_.size()); }
  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }
  Bytes AnySize() { return Bytes(1 + Below((end() - begin_).count() * 5 / 4)); }
  Bytes AnySmallSize() { return Bytes(1 + Below((slot_ * 2).count())); }
  Bytes AnyAlignment() {
    Bytes alignment(1);
    while (alignment < slot_ && Below(16) != 0) alignment = alignment * 2;
    return alignment;
  }

  void Step() {
    const uint64_t dice = Below(10);
    if (dice < 3) {
      const Bytes size = AnySmallSize();
      const Bytes alignment = AnyAlignment();
      if (const auto block = range_.Allocate(size, alignment)) blocks_.push_back(*block);
    } else if (dice < 6 && !blocks_.empty()) {
      Block& block = blocks_[Below(blocks_.size())];
      range_.Free(block);
      block = blocks_.back();
      blocks_.pop_back();
    } else {
      MoveSlot(begin_ + slot_ * Below(states_.size()));
    }
  }

  void MoveSlot(Bytes slot) {
    State& state = states_[slot];
    switch (state) {
      case State::kEmpty:
        range_.Expect(slot);
        state = State::kComing;
        break;
      case State::kComing:
        if (Below(4) == 0) {
          range_.Clear(slot);
          state = State::kEmpty;
        } else {
          range_.Fill(slot);
          state = State::kFilled;
        }
        break;
      case State::kFilled:
        if (range_.BlocksIn(slot) > 0) break;
        range_.Close(slot);
        state = State::kClosed;
        break;
      case State::kClosed:
        range_.Clear(slot);
        state = State::kEmpty;
        break;
    }
  }

  // The empty slots that [at, at + size) touches; nullopt if it also touches what is not free.
  std::optional<Slots> EmptyUnder(Bytes at, Bytes size) const {
    if (at + size > end()) return std::nullopt;
    for (const Block& block : blocks_) {
      if (block.offset < at + size && at < block.offset + block.size) return std::nullopt;
    }
    Slots empty;
    for (Bytes slot = AlignDown(at, slot_); slot < at + size; slot += slot_) {
      const State state = states_.at(slot);
      if (state == State::kEmpty) empty.push_back(slot);
      if (state == State::kComing || state == State::kClosed) return std::nullopt;
    }
    return empty;
  }

  std::optional<Slots> FewestLowest(Bytes size, Bytes alignment) const {
    size = AlignUp(size, kGranule);
    alignment = std::max(alignment, kGranule);
    std::optional<Slots> best;
    for (Bytes at = AlignUp(begin_, alignment); at < end(); at += alignment) {
      const std::optional<Slots> empty = EmptyUnder(at, size);
      if (empty && (!best || empty->size() < best->size())) best = empty;
    }
    return best;
  }

  void CheckPlan() {
    const Bytes size = AnySize();
    const Bytes alignment = AnyAlignment();
    SCOPED_TRACE(testing::Message() << size.count() << " bytes at " << alignment.count());
    const std::optional<Slots> expected = FewestLowest(size, alignment);
    if (const std::optional<Block> block = range_.Allocate(size, alignment)) {
      EXPECT_EQ(block->offset % alignment, Bytes(0));
      EXPECT_EQ(EmptyUnder(block->offset, block->size), Slots());
      range_.Free(*block);
      return;
    }
    const std::optional<Slots> plan = range_.PlanGrowth(size, alignment);
    EXPECT_EQ(plan, expected);
    if (!plan.has_value()) return;
    ++grown_;
    for (const Bytes slot : *plan) {
      range_.Expect(slot);
      range_.Fill(slot);
    }
    const std::optional<Block> block = range_.Allocate(size, alignment);
    ASSERT_TRUE(block.has_value());
    range_.Validate();
    range_.Free(*block);
    for (const Bytes slot : *plan) {
      range_.Close(slot);
      range_.Clear(slot);
    }
  }

  void CheckLargest() {
    const uint64_t most = Below(states_.size() + 2);
    const Bytes largest = range_.LargestFree(most);
    SCOPED_TRACE(testing::Message() << "largest of " << most << ": " << largest.count());
    if (!largest.zero()) {
      const std::optional<Slots> plan = FewestLowest(largest, kGranule);
      EXPECT_TRUE(plan.has_value() && plan->size() <= most);
    }
    const std::optional<Slots> beyond = FewestLowest(largest + kGranule, kGranule);
    EXPECT_FALSE(beyond.has_value() && beyond->size() <= most);
  }

  std::mt19937_64 random_;
  const Bytes slot_;
  const Bytes begin_;
  PoolRange range_;
  std::map<Bytes, State> states_;
  std::vector<Block> blocks_;
  int grown_ = 0;
};

class PoolRangePropertyTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(PoolRangePropertyTest, GrowthIsTheLeastThatWillDoAndTheLargestIsExact) {
  int grown = 0;
  for (const Bytes slot : {kGranule, kGranule * 2, KiB(1), KiB(4)}) {
    for (const uint64_t slots : {1U, 4U, 7U, 12U}) {
      SCOPED_TRACE(testing::Message() << slots << " slots of " << slot.count());
      RandomRange range(GetParam(), slot, slots);
      range.Do(1'500);
      grown += range.grown();
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(grown, 1'000);
}

INSTANTIATE_TEST_SUITE_P(Seeds, PoolRangePropertyTest, ::testing::Range(1U, 5U));

}  // namespace
}  // namespace tenure
