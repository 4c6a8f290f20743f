#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/plan/search_budget.h"
#include "core/plan/strip_problem.h"
#include "core/plan/valley_search.h"

namespace tenure {

// Searches a strip for lower and lower plans, at one capacity after another: at the lowest one that
// is not known to be too low, with one strategy after another and more and more nodes, and in turns
// with that at capacities between it and the best height so far. Thread-compatible.
class RungSearch {
 public:
  // No plan needs to be lower than `goal`. REQUIRES: `strip` outlives it.
  RungSearch(const StripProblem& strip, uint64_t goal);

  // Searches at one capacity below `height`. True if it found a plan.
  bool Step(uint64_t height, SearchBudget& budget);

  // By storage, once it was found.
  const std::vector<uint64_t>& offsets() const { return found_by_->offsets(); }

  // True if no plan of the strip is lower than `height`.
  bool none_below(uint64_t height) const { return lowest_ >= static_cast<int64_t>(height); }

 private:
  // With the strategy whose turn it is, and the nodes that it gets then.
  bool SearchAt(int64_t capacity, uint64_t turn, SearchBudget& budget);
  uint64_t NodesOf(uint64_t turn) const;

  const StripProblem& strip_;
  const std::vector<ValleyStrategy> strategies_;
  std::vector<std::unique_ptr<ValleySearch>> searches_;  // by strategy, once it was needed
  const ValleySearch* found_by_ = nullptr;
  const int64_t goal_;
  int64_t lowest_;  // no plan is lower
  uint64_t step_ = 0;
  uint64_t turns_at_lowest_ = 0;
  uint64_t turns_between_ = 0;
};

}  // namespace tenure
