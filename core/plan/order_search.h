#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/first_fit.h"
#include "core/plan/packed_problem.h"
#include "core/plan/search_budget.h"

namespace tenure {

// Looks for an order in which first fit gives a low plan: what ends above the goal comes earlier
// the next time, as in squeaky wheel optimisation (Joslin and Clements, 1999), and a change is kept
// if the plan is no higher. For any problem, whatever its size. Thread-compatible.
class OrderSearch {
 public:
  // Starts with `order`. What ends above `goal` is too high.
  // REQUIRES: `problem` outlives it.
  OrderSearch(const PackedProblem& problem, uint64_t goal, std::vector<uint32_t> order);

  // Places everything once. True if that gave a plan no higher than any before, which `offsets`
  // then are.
  bool Step(SearchBudget& budget);

  const std::vector<uint64_t>& offsets() const { return first_fit_.offsets(); }

 private:
  uint64_t Random();
  void MoveOffenders(std::vector<uint32_t>& order);

  const PackedProblem& problem_;
  const uint64_t goal_;
  FirstFit first_fit_;
  std::vector<uint32_t> kept_;       // the order of the best plan
  std::vector<uint32_t> offenders_;  // of that plan: what ends above the goal
  uint64_t height_ = UINT64_MAX;     // of that plan
  uint64_t random_ = 0x9e3779b97f4a7c15;
};

}  // namespace tenure
