#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/packed_problem.h"

namespace tenure {

// Storages without gaps, whose sizes are all the alignment that there is: rectangles that may move
// up and down. Sums of sizes stay below 2^63.
struct StripProblem {
  uint32_t sections = 0;
  std::vector<SectionRange> range{};  // by storage
  std::vector<int64_t> size{};
  // Every plan of this is one of the problem that it was made of, and a plan of that which is as
  // high as this one's at most is one of this.
  bool exact = false;
  int64_t bound = 0;  // the largest sum of sizes in a section
  int64_t step = 1;   // heights are multiples of it
};

// `problem` with its gaps filled and its sizes rounded up to the largest alignment.
// REQUIRES: nothing is fixed.
StripProblem MakeStrip(const PackedProblem& problem);

}  // namespace tenure
