#include "core/plan/plan_input.h"

#include <gtest/gtest.h>

#include "core/plan/make_plan.h"

namespace tenure {
namespace {

TEST(PlanInputTest, ThreeWorkspacesTakeTenMebibytes) {
  const PlanInput input = {{.id = "A", .size = MiB(4), .first_use = 0, .end = 3},
                           {.id = "B", .size = MiB(6), .first_use = 1, .end = 4},
                           {.id = "C", .size = MiB(4), .first_use = 3, .end = 5}};
  const auto problem = MakePlanProblem(input);
  ASSERT_TRUE(problem.ok()) << problem.status();
  const Plan plan = MakePlan(*problem, {}, SteadyClock());
  EXPECT_EQ(plan.height, MiB(10));
}

}  // namespace
}  // namespace tenure
