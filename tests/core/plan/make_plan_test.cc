#include "core/plan/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "core/plan/validate_plan.h"
#include "tests/support/plan_instances.h"

namespace tenure {
namespace {

PlanBuffer Buffer(const std::string& id, uint64_t size, Step first_use, Step end) {
  return {.id = id, .size = Bytes(size), .first_use = first_use, .end = end};
}

// Ended by `nodes` alone, so that it is the same on every machine. Checks the plan.
Plan PlanOf(const PlanInput& input, uint64_t nodes = 100'000,
            std::optional<Bytes> capacity = std::nullopt) {
  const SteadyClock clock;
  const PlanProblem problem = *MakePlanProblem(input);
  Plan plan = MakePlan(problem, {.budget = kForever, .nodes = nodes, .capacity = capacity}, clock);
  std::vector<Bytes> offsets;
  for (const uint32_t storage : problem.storage_of) offsets.push_back(plan.offsets[storage]);
  EXPECT_TRUE(ValidatePlan(input, offsets, plan.height).ok())
      << ValidatePlan(input, offsets, plan.height);
  EXPECT_LE(plan.lower_bound, plan.height);
  return plan;
}

Plan PlanOf(const std::string& instance, uint64_t nodes = 100'000,
            std::optional<Bytes> capacity = std::nullopt) {
  return PlanOf(ReadPlanInstance(instance), nodes, capacity);
}

TEST(MakePlanTest, NothingNeedsNothing) {
  const Plan plan = PlanOf(PlanInput{});
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.height, Bytes(0));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, WhatIsNotAliveAtOnceSharesBytes) {
  const Plan plan = PlanOf({Buffer("a", 7, 0, 2), Buffer("b", 5, 2, 4)});
  EXPECT_THAT(plan.offsets, testing::ElementsAre(Bytes(0), Bytes(0)));
  EXPECT_EQ(plan.height, Bytes(7));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, WhatIsAliveAtOnceDoesNot) {
  const Plan plan = PlanOf({Buffer("a", 7, 0, 3), Buffer("b", 5, 2, 4)});
  EXPECT_EQ(plan.height, Bytes(12));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, ProvesAHeightAboveTheLowerBound) {
  // 11 bytes are alive, but what is aligned to 4 begins at 0 and at 8.
  PlanInput input = {Buffer("a", 5, 0, 2), Buffer("b", 5, 0, 2), Buffer("c", 1, 0, 2)};
  input[0].alignment = input[1].alignment = Bytes(4);
  const Plan plan = PlanOf(input);
  EXPECT_EQ(plan.lower_bound, Bytes(11));
  EXPECT_EQ(plan.height, Bytes(13));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, TinyInstancesReachTheirOptimum) {
  const std::vector<std::pair<std::string, uint64_t>> instances = {
      {"omnimalloc-small/a.6", 6}, {"omnimalloc-small/b.6", 6},   {"omnimalloc-small/c.8", 8},
      {"omnimalloc-small/d.9", 9}, {"omnimalloc-small/e.12", 12}, {"omnimalloc-small/f.14", 14},
      {"omnimalloc-small/g.7", 7}, {"minimalloc/input.12", 12}};
  for (const auto& [name, optimum] : instances) {
    const Plan plan = PlanOf(name);
    EXPECT_EQ(plan.height, Bytes(optimum)) << name;
    EXPECT_TRUE(plan.proven) << name;
  }
}

TEST(MakePlanTest, TightInstancesReachTheirLowerBound) {
  for (const char letter : {'A', 'B', 'C', 'E', 'F', 'G', 'H', 'I'}) {
    const Plan plan = PlanOf(std::string("minimalloc/") + letter + ".1048576", 200'000);
    EXPECT_TRUE(plan.proven) << letter;
    EXPECT_EQ(plan.height, plan.lower_bound) << letter;
  }
}

TEST(MakePlanTest, StopsOnceThePlanFitsTheCapacity) {
  const Plan any = PlanOf("minimalloc/A.1048576", 1'000'000, MiB(2));
  EXPECT_LE(any.height, MiB(2));
  EXPECT_FALSE(any.proven);
  const Plan tight = PlanOf("minimalloc/J.1048576", 1'000'000, MiB(1));
  EXPECT_LE(tight.height, MiB(1));
  EXPECT_LT(tight.nodes, 1'000'000U);
}

TEST(MakePlanTest, GivesItsBestWhereNoPlanFitsTheCapacity) {
  const Plan plan = PlanOf({Buffer("a", 7, 0, 3), Buffer("b", 5, 2, 4)}, 1000, Bytes(10));
  EXPECT_EQ(plan.height, Bytes(12));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, TheSameNodesGiveTheSamePlan) {
  for (const std::string name : {"minimalloc/D.1048576", "minimalloc/K.1048576"}) {
    const Plan once = PlanOf(name, 20'000);
    const Plan again = PlanOf(name, 20'000);
    EXPECT_EQ(once.offsets, again.offsets);
    EXPECT_EQ(once.nodes, again.nodes);
  }
}

TEST(MakePlanTest, NodesEndTheSearch) {
  const Plan plan = PlanOf("minimalloc/D.1048576", 5'000);
  EXPECT_FALSE(plan.proven);
  EXPECT_LE(plan.nodes, 5'000U);
}

TEST(MakePlanTest, AFirstPlanIsFinishedWithoutABudget) {
  const SteadyClock clock;
  const PlanProblem problem = *MakePlanProblem(ReadPlanInstance("minimalloc/D.1048576"));
  const Plan plan = MakePlan(problem, {.budget = Duration{0}}, clock);
  EXPECT_EQ(plan.offsets.size(), problem.storages.size());
  EXPECT_GT(plan.height, plan.lower_bound);
}

TEST(MakePlanTest, AGapIsUsed) {
  PlanBuffer gapped = Buffer("a", 8, 0, 10);
  gapped.gaps = {{2, 8}};
  const Plan plan = PlanOf({gapped, Buffer("b", 8, 2, 8), Buffer("c", 4, 0, 10)});
  EXPECT_EQ(plan.height, Bytes(12));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, OffsetsAreAligned) {
  PlanBuffer aligned = Buffer("a", 5, 0, 2);
  aligned.alignment = Bytes(4);
  const Plan plan = PlanOf({Buffer("b", 3, 0, 2), aligned, Buffer("c", 3, 0, 2)});
  // 0 to 5, and 3 at 5 and at 8.
  EXPECT_EQ(plan.height, Bytes(11));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, OneAlignmentOfAllCountsInTheLowerBound) {
  PlanInput input;
  for (const uint64_t size : {100U, 300U, 500U}) {
    input.push_back(Buffer(std::to_string(size), size, 0, 2));
    input.back().alignment = Bytes(256);
  }
  // Whatever lies on top need not be rounded up: best is what would lose most.
  const Plan plan = PlanOf(input);
  EXPECT_EQ(plan.lower_bound, Bytes(256 + 512 + 300));
  EXPECT_EQ(plan.height, plan.lower_bound);
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, WhatIsFixedStaysWhereItIs) {
  PlanBuffer fixed = Buffer("a", 4, 0, 4);
  fixed.fixed_offset = Bytes(6);
  const Plan plan = PlanOf({fixed, Buffer("b", 5, 0, 2), Buffer("c", 7, 2, 4)});
  EXPECT_THAT(plan.offsets, testing::ElementsAre(Bytes(6), Bytes(0), Bytes(10)));
  EXPECT_EQ(plan.height, Bytes(17));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, TheEndOfWhatIsFixedIsALowerBound) {
  PlanBuffer fixed = Buffer("a", 4, 0, 4);
  fixed.fixed_offset = Bytes(100);
  const Plan plan = PlanOf({fixed, Buffer("b", 5, 0, 2)});
  EXPECT_EQ(plan.lower_bound, Bytes(104));
  EXPECT_TRUE(plan.proven);
}

TEST(MakePlanTest, ManyStoragesArePlannedToo) {
  // More than are searched: a staircase of three at once.
  PlanInput input;
  for (Step i = 0; i < 10'000; ++i) {
    input.push_back(Buffer(std::to_string(i), 1 + static_cast<uint64_t>(i % 7), i, i + 3));
  }
  const Plan plan = PlanOf(input, 50'000);
  EXPECT_LE(plan.height.count(), plan.lower_bound.count() * 3 / 2);
}

TEST(MakePlanTest, ACapacityMayBeBeyondEverything) {
  const Plan plan = PlanOf("minimalloc/A.1048576", 10'000, Bytes(UINT64_MAX));
  EXPECT_LE(plan.height, MiB(2));
}

TEST(MakePlanTest, SizesMayBeHuge) {
  const uint64_t huge = uint64_t{1} << 60;
  const Plan plan = PlanOf({Buffer("a", huge, 0, 3), Buffer("b", huge, 1, 4),
                            Buffer("c", huge, 2, 5), Buffer("d", huge, 4, 6)});
  EXPECT_EQ(plan.height, Bytes(3 * huge));
  EXPECT_TRUE(plan.proven);
}

}  // namespace
}  // namespace tenure
