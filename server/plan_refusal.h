#pragma once

#include <optional>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/plan/late_starts.h"
#include "core/plan/plan_cache.h"

namespace tenure {

// PLAN_INFEASIBLE for a plan that is higher than `capacity`, with the values of which PlanBuffers
// in plan.proto speaks: what was found, what stands in the way at the worst step, and `late`, what
// would help.
// REQUIRES: MakePlanProblem takes the plan's input.
Status PlanInfeasible(const StoredPlan& plan, Bytes capacity,
                      const std::optional<LateStarts>& late);

}  // namespace tenure
