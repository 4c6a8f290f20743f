#pragma once

#include <optional>
#include <vector>

#include "core/base/units.h"
#include "core/plan/plan_input.h"

namespace tenure {

// List scheduling (Graham, 1969): starts storages in the order of their first uses, each as early
// as the sizes that are alive beside it allow, so that they never need more than `capacity`. Those
// that `stays` marks never end. By storage, how much later it starts; nullopt if one finds no room.
// REQUIRES: `stays` has an entry for each storage.
std::optional<std::vector<Step>> ListSchedule(const PlanProblem& problem,
                                              const std::vector<bool>& stays, Bytes capacity);

}  // namespace tenure
