#pragma once

#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/units.h"

namespace tenure {

// How dear it is to reclaim a Region, cheapest first.
enum class VictimCost {
  kNothing,  // nobody owns it, nobody has it mapped
  kRecall,   // nobody owns it, idle Shares must be recalled
  kUnload,   // an idle model must go offline first
};

struct VictimCandidate {
  RegionId region;
  Bytes bytes;
  VictimCost cost = VictimCost::kNothing;
  Instant unused_since;
};

// Which of `candidates` to reclaim for `need` bytes; nullopt if all together do not suffice. No
// dearer one than necessary is chosen, and of each cost the least number that suffices; of that
// number the one unused longest: repeatedly the oldest with which the largest of the rest still
// suffice. Chooses, never acts.
std::optional<std::vector<VictimCandidate>> ChooseVictims(
    const std::vector<VictimCandidate>& candidates, Bytes need);

}  // namespace tenure
