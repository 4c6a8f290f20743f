#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/strip_problem.h"

namespace tenure {

// What is tried first. The search is complete with each of them, but each is good for other
// problems.
struct ValleyStrategy {
  // Which of the storages that fit somewhere.
  enum class Order { kWidth, kSize, kArea, kWidthArea, kSizeArea, kNarrow };
  // Which place, beside how few possibilities it has: any, with little slack, low, narrow.
  enum class Choice { kFewest, kSlack, kSlackTimesFewest, kNarrowest, kLowest, kLowTimesFewest };
  Order order = Order::kSize;
  Choice choice = Choice::kSlack;
  friend bool operator==(const ValleyStrategy&, const ValleyStrategy&) = default;
};

// All storages of `problem`, in the order in which they are tried.
std::vector<uint32_t> OrderPieces(const StripProblem& problem, ValleyStrategy::Order order);

}  // namespace tenure
