#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "core/plan/make_plan.h"
#include "core/plan/plan_input.h"

namespace tenure {

// A buffer that starts later than it was asked to, and ends as much later.
struct LateStart {
  uint32_t buffer = 0;  // an index into the input
  Step first_use = 0;   // instead of its own
  friend bool operator==(const LateStart&, const LateStart&) = default;
};

// What has to be late for a plan to fit a capacity.
struct LateStarts {
  std::vector<LateStart> starts{};  // in the order of the input
  Step delay = 0;                   // the sum of the delays, once for each storage
  bool proven = false;              // no smaller sum makes a plan fit
  PlanInput input{};                // as it is then
  Plan plan{};                      // and a plan of it that fits
};

// The least delay in sum that can be found within `limits` so that a plan fits `capacity`. Views of
// one storage are late together. What depends on a buffer is not known here: whoever delays it sees
// to that. nullopt if there is none, as when one buffer is too large, or none was found.
//
// Searches by sum of delays: where the sizes alive at a step are too many, or no plan fits, some
// storage has to wait until another one ends, as in resource-constrained scheduling.
// REQUIRES: MakePlanProblem takes `input`.
std::optional<LateStarts> FindLateStarts(const PlanInput& input, Bytes capacity,
                                         const PlanLimits& limits, const Clock& clock);

}  // namespace tenure
