#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/plan/plan_input.h"

namespace tenure::cli {

struct PlanPicture {
  std::string title{};
  Bytes height{};
  Bytes lower_bound{};
  std::optional<Bytes> capacity{};
};

// A plan as an SVG file: steps across, offsets up, a rectangle for each buffer, or for each part of
// it where it has gaps, with a title that tells all of it. A colour follows from the id alone.
// REQUIRES: MakePlanProblem takes `input`; `offsets` has one for each buffer.
std::string DrawPlan(const PlanInput& input, const std::vector<Bytes>& offsets,
                     const PlanPicture& picture);

}  // namespace tenure::cli
