#pragma once

#include "core/base/status.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Plans what a reader of planner input made of its text, and holds the plan against the validator;
// or looks at the refusal. Returns whether the text was accepted, and ends the process if either is
// not as it has to be.
bool CheckPlanInput(const StatusOr<PlanInput>& input);

}  // namespace tenure
