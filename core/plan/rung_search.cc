#include "core/plan/rung_search.h"

#include <algorithm>
#include <array>

namespace tenure {
namespace {

using Order = ValleyStrategy::Order;
using Choice = ValleyStrategy::Choice;

// In this order, four of them solve nine of MiniMalloc's eleven instances with few nodes each; the
// others are there for what is unlike those.
constexpr std::array kStrategies = {
    ValleyStrategy{Order::kSize, Choice::kSlack},
    ValleyStrategy{Order::kNarrow, Choice::kSlack},
    ValleyStrategy{Order::kWidth, Choice::kFewest},
    ValleyStrategy{Order::kSizeArea, Choice::kSlackTimesFewest},
    ValleyStrategy{Order::kArea, Choice::kSlack},
    ValleyStrategy{Order::kSizeArea, Choice::kFewest},
    ValleyStrategy{Order::kWidthArea, Choice::kNarrowest},
    ValleyStrategy{Order::kWidth, Choice::kSlack},
    ValleyStrategy{Order::kWidth, Choice::kLowest},
    ValleyStrategy{Order::kSizeArea, Choice::kLowest},
    ValleyStrategy{Order::kSizeArea, Choice::kSlack},
    ValleyStrategy{Order::kNarrow, Choice::kLowTimesFewest},
};
// Finds a plan of a little more than the bound without a dead end, nearly always.
constexpr size_t kFirstStrategy = 7;
constexpr int64_t kFirstShare = 11;  // of the bound, on top of it
// Where there is some slack others are good.
constexpr size_t kBetweenStrategies = 4;

}  // namespace

RungSearch::RungSearch(const StripProblem& strip, uint64_t goal)
    : strip_(strip),
      searches_(kStrategies.size()),
      goal_(static_cast<int64_t>(goal)),
      lowest_(strip.bound),
      too_low_(std::max(goal_, lowest_)) {}

bool RungSearch::Step(uint64_t height, SearchBudget& budget) {
  const auto best = static_cast<int64_t>(height);
  const int64_t lowest = std::max(lowest_, goal_);
  const uint64_t step = step_++;
  if (step == 0) {
    const int64_t first = strip_.bound + strip_.bound / kFirstShare;
    if (first < best) return SearchAt(std::max(first, lowest), NodesOf(0), kFirstStrategy, budget);
  }
  // Twice at the lowest capacity, then once between.
  if (step % 3 != 2) {
    const uint64_t turn = step / 3 * 2 + step % 3;
    return SearchAt(lowest, NodesOf(turn), turn % kStrategies.size(), budget);
  }
  if (best - too_low_ <= strip_.bound / 128) too_low_ = lowest;
  const int64_t between = std::min((too_low_ + best) / 2, best - 1);
  const uint64_t turn = step / 3 + kBetweenStrategies;
  return SearchAt(between, NodesOf(step / 3), turn % kStrategies.size(), budget);
}

// Doubles whenever all strategies have had their turn.
uint64_t RungSearch::NodesOf(uint64_t turn) const {
  return (4 * strip_.size.size() + 64) << std::min<uint64_t>(turn / kStrategies.size(), 40);
}

ValleySearch& RungSearch::SearchBy(size_t strategy) {
  std::unique_ptr<ValleySearch>& search = searches_[strategy];
  if (search == nullptr) search = std::make_unique<ValleySearch>(strip_, kStrategies[strategy]);
  return *search;
}

bool RungSearch::SearchAt(int64_t capacity, uint64_t nodes, size_t strategy, SearchBudget& budget) {
  ValleySearch& search = SearchBy(strategy);
  switch (search.Search(capacity, nodes, budget)) {
    case ValleySearch::Outcome::kFound:
      found_by_ = &search;
      return true;
    case ValleySearch::Outcome::kNone:
      // Heights are multiples of the step.
      lowest_ = std::max(lowest_, capacity / strip_.step * strip_.step + strip_.step);
      too_low_ = std::max(too_low_, lowest_);
      return false;
    case ValleySearch::Outcome::kStopped:
      too_low_ = std::max(too_low_, capacity);
      return false;
  }
  return false;
}

}  // namespace tenure
