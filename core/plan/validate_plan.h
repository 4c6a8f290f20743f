#pragma once

#include <vector>

#include "core/base/status.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Whether `offsets`, one for each buffer of `input`, are a plan of `height` for it. Shares nothing
// with what makes plans, nor with how that reads an input: this is what a plan is held against
// before memory is given out by it.
//
//   PLAN_TOO_SMALL  a buffer ends beyond `height`, or its offset is not aligned
//   PLAN_OVERLAP    two storages share bytes while both are alive, two views of one storage are
//                   apart, or a buffer is not where it has to lie
// The errors have the value `buffer`, and those about two `other`; where `other` ends, `free_at` is
// the step from which on `buffer` could lie where it does.
//
// O(n log n + n k), with k as the most storages alive at once, where a step of k is a moved word.
// REQUIRES: MakePlanProblem takes `input`; as many offsets as buffers.
Status ValidatePlan(const PlanInput& input, const std::vector<Bytes>& offsets, Bytes height);

}  // namespace tenure
