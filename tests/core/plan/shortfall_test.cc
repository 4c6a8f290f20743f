#include "core/plan/shortfall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenure {
namespace {

using ::testing::ElementsAre;

PlanProblem Problem(const PlanInput& input) {
  auto problem = MakePlanProblem(input);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return *std::move(problem);
}

TEST(ShortfallTest, NamesTheFirstWorstStepAndWhatIsAliveThere) {
  const PlanProblem problem = Problem({{.id = "A", .size = MiB(4), .first_use = 0, .end = 5},
                                       {.id = "B", .size = MiB(6), .first_use = 1, .end = 4},
                                       {.id = "C", .size = MiB(4), .first_use = 3, .end = 5},
                                       {.id = "D", .size = MiB(10), .first_use = 7, .end = 9}});
  const auto shortfall = FindShortfall(problem, MiB(10));
  ASSERT_TRUE(shortfall.has_value());
  EXPECT_EQ(shortfall->step, 3);
  EXPECT_EQ(shortfall->needed, MiB(14));
  EXPECT_THAT(shortfall->storages, ElementsAre(0, 1, 2));
  EXPECT_FALSE(FindShortfall(problem, MiB(14)).has_value());
}

TEST(ShortfallTest, WhatEndsAtAStepIsNotAliveThere) {
  const PlanProblem problem = Problem({{.id = "A", .size = MiB(4), .first_use = 0, .end = 3},
                                       {.id = "B", .size = MiB(4), .first_use = 3, .end = 4}});
  EXPECT_FALSE(FindShortfall(problem, MiB(4)).has_value());
  EXPECT_TRUE(FindShortfall(problem, MiB(3)).has_value());
}

TEST(ShortfallTest, NothingIsAliveInAGap) {
  const PlanProblem problem =
      Problem({{.id = "A", .size = MiB(4), .first_use = 0, .end = 9, .gaps = {{3, 6}}},
               {.id = "B", .size = MiB(4), .first_use = 3, .end = 6}});
  EXPECT_FALSE(FindShortfall(problem, MiB(4)).has_value());
}

}  // namespace
}  // namespace tenure
