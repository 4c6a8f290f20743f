// The input is a table of buffers.

#include "core/plan/plan_csv.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/plan_invariants.h"

namespace tenure {

bool AcceptsInput(std::string_view input) { return CheckPlanInput(ParsePlanCsv(input)); }

}  // namespace tenure
