#pragma once

#include <random>

#include "core/plan/plan_input.h"

namespace tenure {

// The most of everything in a random input.
struct RandomInputOptions {
  uint64_t buffers = 6;
  Step steps = 10;
  uint64_t size = 8;
  bool fixed = true;  // some buffers have to lie somewhere
};

// An input that makes sense, with alignments, gaps, views, outputs and unknown ends in some of
// them.
PlanInput RandomInput(std::mt19937_64& random, const RandomInputOptions& options);

}  // namespace tenure
