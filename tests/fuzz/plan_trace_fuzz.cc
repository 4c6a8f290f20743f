// The input is the trace of a run's operators.

#include "core/plan/plan_trace.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_invariants.h"

namespace tenure {

bool AcceptsInput(std::string_view input) { return CheckPlanInput(ParsePlanTrace(input)); }

}  // namespace tenure
