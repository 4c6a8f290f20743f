#include "core/plan/validate_plan.h"

#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>
#include <tuple>

#include "tests/core/plan/random_input.h"

namespace tenure {
namespace {

// "", or "REASON buffer" or "REASON buffer other".
std::string VerdictOn(const PlanInput& input, const std::vector<uint64_t>& offsets,
                      uint64_t height) {
  const Status status =
      ValidatePlan(input, std::vector<Bytes>(offsets.begin(), offsets.end()), Bytes(height));
  if (status.ok()) return "";
  const auto detail = DetailOf(status);
  std::string verdict = detail->reason;
  for (const auto& [name, value] : detail->values) verdict += " " + value;
  return verdict;
}

// A [0, 3) of 4, B [1, 4) of 6, C [3, 5) of 4, as a plan of 10 puts them.
class ValidatePlanTest : public ::testing::Test {
 protected:
  PlanInput input_ = {{.id = "A", .size = Bytes(4), .first_use = 0, .end = 3},
                      {.id = "B", .size = Bytes(6), .first_use = 1, .end = 4},
                      {.id = "C", .size = Bytes(4), .first_use = 3, .end = 5}};
  std::string Verdict() const { return VerdictOn(input_, {0, 4, 0}, 10); }
};

TEST_F(ValidatePlanTest, APlanHolds) { EXPECT_EQ(Verdict(), ""); }

TEST_F(ValidatePlanTest, NoBuffersNeedNothing) { EXPECT_EQ(VerdictOn({}, {}, 0), ""); }

TEST_F(ValidatePlanTest, ALongerLifeIsAnOverlap) {
  input_[0].end = 5;
  EXPECT_EQ(Verdict(), "PLAN_OVERLAP C A 5");
  input_[2].first_use = 5;
  input_[2].end = 7;
  EXPECT_EQ(Verdict(), "");
}

TEST_F(ValidatePlanTest, ALargerBufferMeetsItsNeighbourOrTheEnd) {
  input_[0].size = Bytes(5);
  EXPECT_EQ(Verdict(), "PLAN_OVERLAP B A 3");
  input_[0].size = Bytes(4);
  input_[1].size = Bytes(7);
  EXPECT_EQ(Verdict(), "PLAN_TOO_SMALL B");
  input_[1].size = Bytes(UINT64_MAX);
  EXPECT_EQ(Verdict(), "PLAN_TOO_SMALL B");
}

TEST_F(ValidatePlanTest, AlignmentCounts) {
  input_[1].alignment = Bytes(4);
  EXPECT_EQ(Verdict(), "");
  input_[1].alignment = Bytes(8);
  EXPECT_EQ(Verdict(), "PLAN_TOO_SMALL B");
}

TEST_F(ValidatePlanTest, AFixedBufferLiesWhereItHasTo) {
  input_[2].fixed_offset = Bytes(0);
  EXPECT_EQ(Verdict(), "");
  input_[2].fixed_offset = Bytes(6);
  EXPECT_EQ(Verdict(), "PLAN_OVERLAP C");
}

TEST_F(ValidatePlanTest, AViewThatLivesLongerKeepsTheStorage) {
  input_.push_back({.id = "V", .size = Bytes(2), .first_use = 1, .end = 5});
  input_[0].alias_group = input_[3].alias_group = 0;
  EXPECT_EQ(VerdictOn(input_, {0, 4, 0, 0}, 10), "PLAN_OVERLAP C A 5");
  input_[3].end = 3;
  EXPECT_EQ(VerdictOn(input_, {0, 4, 0, 0}, 10), "");
}

TEST_F(ValidatePlanTest, BetweenTwoViewsTheStorageIsKept) {
  input_.push_back({.id = "V", .size = Bytes(2), .first_use = 4, .end = 5});
  input_[0].alias_group = input_[3].alias_group = 0;
  EXPECT_EQ(VerdictOn(input_, {0, 4, 0, 0}, 10), "PLAN_OVERLAP C A 5");
}

TEST_F(ValidatePlanTest, ViewsLieTogether) {
  input_.push_back({.id = "V", .size = Bytes(2), .first_use = 1, .end = 3});
  input_[0].alias_group = input_[3].alias_group = 0;
  EXPECT_EQ(VerdictOn(input_, {0, 4, 0, 2}, 10), "PLAN_OVERLAP V A");
}

TEST_F(ValidatePlanTest, OutputsAndUnknownEndsAreAliveToTheEnd) {
  input_[0].output = true;
  EXPECT_EQ(Verdict(), "PLAN_OVERLAP C A 5");
  input_[0].output = false;
  input_[0].end = std::nullopt;
  EXPECT_EQ(Verdict(), "PLAN_OVERLAP C A");
}

TEST_F(ValidatePlanTest, AGapMayBeFilled) {
  input_[0].end = 9;
  input_[0].gaps = {{3, 5}};
  EXPECT_EQ(Verdict(), "");
  input_[0].gaps = {{3, 4}};
  EXPECT_EQ(Verdict(), "PLAN_OVERLAP A C 5");
}

// Every byte and step by themselves, as the words say them.
bool HoldsByHand(const PlanInput& input, const std::vector<Bytes>& offsets, Bytes height) {
  const auto problem = MakePlanProblem(input);
  std::set<std::tuple<uint32_t, Step, uint64_t>> taken;
  std::set<std::pair<Step, uint64_t>> cells;
  for (size_t i = 0; i < input.size(); ++i) {
    const Storage& storage = problem->storages[problem->storage_of[i]];
    if (offsets[i] != offsets[storage.buffer]) return false;
    if (offsets[i] + input[i].size > height) return false;
    if (!(offsets[i] % input[i].alignment).zero()) return false;
    if (input[i].fixed_offset.value_or(offsets[i]) != offsets[i]) return false;
    if (storage.buffer != i) continue;
    for (const Lifespan& span : storage.alive) {
      for (Step step = span.begin; step < std::min<Step>(span.end, 40); ++step) {
        for (uint64_t byte = 0; byte < storage.size.count(); ++byte) {
          if (!cells.emplace(step, offsets[i].count() + byte).second) return false;
        }
      }
    }
  }
  return true;
}

TEST(ValidatePlanPropertyTest, AgreesWithEveryByteAndStep) {
  std::mt19937_64 random(20260701);
  int held = 0;
  for (int round = 0; round < 20'000; ++round) {
    const PlanInput input = RandomInput(random, {.buffers = 5, .steps = 12, .size = 6});
    std::vector<Bytes> offsets;
    const auto problem = MakePlanProblem(input);
    ASSERT_TRUE(problem.ok()) << problem.status();
    for (size_t i = 0; i < input.size(); ++i) {
      const uint32_t first = problem->storages[problem->storage_of[i]].buffer;
      const bool together = first < i && random() % 8 != 0;
      const bool fixed = input[i].fixed_offset.has_value() && random() % 4 != 0;
      offsets.push_back(together ? offsets[first]
                        : fixed  ? *input[i].fixed_offset
                                 : AlignDown(Bytes(random() % 24), Bytes(1 << random() % 3)));
    }
    const Bytes height(18 + random() % 20);
    const bool holds = HoldsByHand(input, offsets, height);
    ASSERT_EQ(ValidatePlan(input, offsets, height).ok(), holds) << "round " << round;
    held += holds ? 1 : 0;
  }
  EXPECT_GT(held, 500);
}

}  // namespace
}  // namespace tenure
