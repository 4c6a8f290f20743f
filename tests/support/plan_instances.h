#pragma once

#include <string>
#include <vector>

#include "core/plan/plan_input.h"

namespace tenure {

// The buffers of a file under tests/data/planner, say "minimalloc/A.1048576": one a line after the
// header id,lower,upper,size. Throws std::runtime_error if there is no such file.
PlanInput ReadPlanInstance(const std::string& name);

// The eleven of MiniMalloc, A to K, that are hard to fit into 1048576 bytes.
std::vector<std::string> TightPlanInstances();

}  // namespace tenure
