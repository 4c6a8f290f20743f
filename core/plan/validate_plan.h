#pragma once

#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Whether `offsets`, one for each buffer of `input`, are a plan of `height` for it. Shares nothing
// with what makes plans, nor with how that reads an input: this is what a plan is held against
// before memory is given out by it.
//
//   PLAN_TOO_SMALL   a buffer ends beyond `height`, or its offset is not aligned
//   PLAN_OVERLAP     two buffers that do not share a storage share bytes while both are alive, or
//                    two that do are apart, or a buffer is not where it is fixed
// The errors name `buffer` and, for two, `other`. In O(n log n) for buffers without gaps.
Status ValidatePlan(const PlanInput& input, const std::vector<Bytes>& offsets, Bytes height);

}  // namespace tenure
