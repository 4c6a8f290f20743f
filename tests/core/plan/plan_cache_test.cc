#include "core/plan/plan_cache.h"

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <utility>

namespace tenure {
namespace {

using std::chrono::milliseconds;

PlanInput InputOf(const std::string& id) {
  return {{.id = id, .size = MiB(1), .first_use = 0, .end = 2, .gaps = {}}};
}

std::shared_ptr<const StoredPlan> PlanOf(const PlanInput& input, Bytes height, bool proven) {
  return std::make_shared<const StoredPlan>(
      StoredPlan{.input = std::make_shared<const PlanInput>(input),
                 .offsets = std::vector<Bytes>(input.size()),
                 .height = height,
                 .lower_bound = Bytes(1),
                 .proven = proven});
}

class PlanCacheTest : public ::testing::Test {
 protected:
  void TearDown() override { cache_.Validate(); }

  std::shared_ptr<const StoredPlan> Put(const PlanInput& input, Bytes height, bool proven,
                                        Duration budget) {
    return cache_.Put(PlanKey(input), PlanOf(input, height, proven), budget);
  }
  std::shared_ptr<const StoredPlan> Find(const PlanInput& input, Duration budget) {
    return cache_.Find(PlanKey(input), input, budget);
  }

  const Bytes one_plan_ = PlanCache::BytesOf(*PlanOf(InputOf("x"), MiB(1), true));
  PlanCache cache_{one_plan_ * 3};
};

TEST_F(PlanCacheTest, AProvenPlanIsThereForAnyBudget) {
  EXPECT_EQ(Find(InputOf("a"), milliseconds(0)), nullptr);
  const auto plan = Put(InputOf("a"), MiB(1), /*proven=*/true, milliseconds(1));
  EXPECT_EQ(Find(InputOf("a"), std::chrono::hours(1)), plan);
  EXPECT_EQ(Find(InputOf("b"), milliseconds(1)), nullptr);
}

TEST_F(PlanCacheTest, AnUnprovenPlanIsThereForNoLargerBudgetThanItsOwn) {
  const auto plan = Put(InputOf("a"), MiB(2), /*proven=*/false, milliseconds(10));
  EXPECT_EQ(Find(InputOf("a"), milliseconds(10)), plan);
  EXPECT_EQ(Find(InputOf("a"), milliseconds(11)), nullptr);
  const auto better = Put(InputOf("a"), MiB(1), /*proven=*/false, milliseconds(20));
  EXPECT_EQ(Find(InputOf("a"), milliseconds(5)), better);
  EXPECT_EQ(cache_.size(), 1U);
}

TEST_F(PlanCacheTest, ALowerPlanStaysAndIsThereForTheLargerBudget) {
  const auto plan = Put(InputOf("a"), MiB(1), /*proven=*/false, milliseconds(10));
  EXPECT_EQ(Put(InputOf("a"), MiB(2), /*proven=*/false, milliseconds(20)), plan);
  EXPECT_EQ(Find(InputOf("a"), milliseconds(20)), plan);
}

TEST_F(PlanCacheTest, WhatWasNotAskedForLongestLeaves) {
  for (const char* id : {"a", "b", "c"}) Put(InputOf(id), MiB(1), /*proven=*/true, milliseconds(1));
  EXPECT_EQ(cache_.bytes(), one_plan_ * 3);
  EXPECT_NE(Find(InputOf("a"), milliseconds(1)), nullptr);
  Put(InputOf("d"), MiB(1), /*proven=*/true, milliseconds(1));
  EXPECT_EQ(Find(InputOf("b"), milliseconds(1)), nullptr);
  for (const char* id : {"a", "c", "d"}) EXPECT_NE(Find(InputOf(id), milliseconds(1)), nullptr);
  EXPECT_EQ(cache_.bytes(), one_plan_ * 3);
}

TEST_F(PlanCacheTest, APlanThatIsLargerThanTheCacheIsNotKeptAndDrivesNothingOut) {
  Put(InputOf("a"), MiB(1), /*proven=*/true, milliseconds(1));
  const auto plan = Put(InputOf(std::string(5000, 'x')), MiB(1), /*proven=*/true, milliseconds(1));
  EXPECT_NE(plan, nullptr);
  EXPECT_EQ(cache_.size(), 1U);
  EXPECT_NE(Find(InputOf("a"), milliseconds(1)), nullptr);
}

TEST_F(PlanCacheTest, AnInputWhoseKeyIsAnothersFindsNothing) {
  Put(InputOf("a"), MiB(1), /*proven=*/true, milliseconds(1));
  EXPECT_EQ(cache_.Find(PlanKey(InputOf("a")), InputOf("b"), milliseconds(1)), nullptr);
}

TEST_F(PlanCacheTest, EveryFieldOfAnInputMakesAnotherKey) {
  const PlanInput input = {{.id = "a", .size = MiB(1), .first_use = 0, .end = 9}};
  std::vector<PlanInput> others(9, input);
  others[0][0].id = "b";
  others[1][0].size = MiB(2);
  others[2][0].alignment = Bytes(2);
  others[3][0].first_use = 1;
  others[4][0].end = std::nullopt;
  others[5][0].gaps = {{2, 4}};
  others[6][0].output = true;
  others[7][0].fixed_offset = Bytes(0);
  others[8][0].alias_group = 0;
  for (const PlanInput& other : others) {
    EXPECT_NE(other, input);
    EXPECT_NE(PlanKey(other), PlanKey(input));
  }
  EXPECT_EQ(PlanKey(PlanInput(input)), PlanKey(input));
}

}  // namespace
}  // namespace tenure
