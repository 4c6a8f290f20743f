#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/plan/plan_input.h"

namespace tenure {

// Changes whenever the same input may be given another plan.
inline constexpr uint32_t kPlannerVersion = 1;

// Offsets for the storages of a PlanProblem, so that no two that are alive at once overlap.
//   height = the largest offset + size, lower_bound <= the least height that there is <= height
struct Plan {
  // By storage, see PlanProblem.
  std::vector<Bytes> offsets;
  Bytes height;
  Bytes lower_bound;
  // No plan is lower: the height is the lower bound, or the search has ended without a lower one.
  bool proven = false;
  // Partial plans looked at, and how long all of it took.
  uint64_t nodes = 0;
  Duration seconds{0};
};

// When a search ends, unless it has a proof before. The first plan that heuristics give is always
// finished.
struct PlanLimits {
  Duration budget = std::chrono::milliseconds(100);
  // Beside the budget. A search that only this ends gives the same plan on every machine.
  std::optional<uint64_t> nodes{};
  // A plan no higher than this is good enough.
  std::optional<Bytes> capacity{};
};

// Offsets for `problem`, as low as can be found within `limits`. A first plan by first fit, or by a
// dive of the search; then, of up to some thousands of storages, exact search at one capacity after
// another (see RungSearch and ValleySearch, and CanonicalSearch for what has gaps or fixed
// offsets), in turns with a search for better orders of first fit (see OrderSearch), which more of
// them are left to.
Plan MakePlan(const PlanProblem& problem, const PlanLimits& limits, const Clock& clock);

// The largest sum of sizes alive at one step, with what alignment adds in any case, and no less
// than the end of any fixed storage. 0 for no storages.
Bytes LowerBound(const PlanProblem& problem);

}  // namespace tenure
