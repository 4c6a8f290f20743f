#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/units.h"
#include "core/plan/late_starts.h"
#include "core/plan/make_plan.h"
#include "core/plan/plan_input.h"
#include "core/plan/shortfall.h"

namespace tenure::cli {

// Why a capacity does not do for a plan, and what would help.
struct PlanRemedy {
  std::optional<Shortfall>
      shortfall;                   // unset: the sizes would fit, but no plan was found that does
  std::optional<LateStarts> late;  // unset: none was found
};

// Looks for what would help for as long as `limits` say.
PlanRemedy FindRemedy(const PlanInput& input, const PlanProblem& problem, Bytes capacity,
                      const PlanLimits& limits);

// For people: lines to be added to `fields`, names and texts. REQUIRES: made of these.
void AddRemedy(const PlanInput& input, const PlanProblem& problem, const PlanRemedy& remedy,
               std::vector<std::pair<std::string, std::string>>& fields);
// For programs: keys to be added to `json`, of what was found.
void AddRemedy(const PlanInput& input, const PlanProblem& problem, const PlanRemedy& remedy,
               nlohmann::ordered_json& json);

}  // namespace tenure::cli
