#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Why no plan fits a capacity: at `step` the storages that are alive need `needed` bytes. They are
// the proof, which anybody can add up.
struct Shortfall {
  Step step = 0;
  Bytes needed{};
  std::vector<uint32_t> storages{};  // indices into the problem, in its order
};

// The first of the worst steps. nullopt if the sizes alive at every step fit `capacity`, which does
// not mean that a plan does. O(n log n).
std::optional<Shortfall> FindShortfall(const PlanProblem& problem, Bytes capacity);

}  // namespace tenure
