#include "core/plan/rung_search.h"

#include <algorithm>
#include <array>

namespace tenure {
namespace {

using Order = ValleyStrategy::Order;
using Choice = ValleyStrategy::Choice;

// In this order, four of them solve nine of MiniMalloc's eleven instances with few nodes each. All
// others come after these, for what is unlike those.
constexpr std::array kFirstStrategies = {
    ValleyStrategy{Order::kSize, Choice::kSlack},
    ValleyStrategy{Order::kNarrow, Choice::kSlack},
    ValleyStrategy{Order::kWidth, Choice::kFewest},
    ValleyStrategy{Order::kSizeArea, Choice::kSlackTimesFewest},
    ValleyStrategy{Order::kArea, Choice::kSlack},
    ValleyStrategy{Order::kSizeArea, Choice::kFewest},
    ValleyStrategy{Order::kWidthArea, Choice::kNarrowest},
    ValleyStrategy{Order::kWidth, Choice::kSlack},
};

std::vector<ValleyStrategy> MakeStrategies() {
  std::vector<ValleyStrategy> strategies(kFirstStrategies.begin(), kFirstStrategies.end());
  for (const Order order : {Order::kWidth, Order::kSizeArea, Order::kWidthArea, Order::kSize,
                            Order::kArea, Order::kNarrow}) {
    for (const Choice choice : {Choice::kLowest, Choice::kSlack, Choice::kSlackTimesFewest,
                                Choice::kFewest, Choice::kNarrowest, Choice::kLowTimesFewest}) {
      const ValleyStrategy strategy{order, choice};
      if (std::ranges::find(kFirstStrategies, strategy) == kFirstStrategies.end()) {
        strategies.push_back(strategy);
      }
    }
  }
  return strategies;
}

// Finds a plan of a little more than the bound without a dead end, nearly always.
constexpr size_t kFirstStrategy = 7;
constexpr int64_t kFirstShare = 11;  // of the bound, on top of it
// Where there is some slack others are good.
constexpr size_t kBetweenStrategies = 4;
// How far from the lowest capacity to the best height: at first mostly there, for what is easy.
constexpr size_t kEasySteps = 12;
constexpr std::array<int64_t, 3> kEasyEighths = {0, 0, 4};
constexpr std::array<int64_t, 4> kHardEighths = {0, 2, 4, 6};

}  // namespace

RungSearch::RungSearch(const StripProblem& strip, uint64_t goal)
    : strip_(strip),
      strategies_(MakeStrategies()),
      searches_(strategies_.size()),
      goal_(static_cast<int64_t>(std::min(goal, uint64_t{INT64_MAX}))),
      lowest_(strip.bound) {}

bool RungSearch::Step(uint64_t height, SearchBudget& budget) {
  const auto best = static_cast<int64_t>(height);
  const int64_t lowest = std::max(lowest_, goal_);
  const uint64_t step = step_++;
  if (step == 0) {
    int64_t first = strip_.bound + strip_.bound / kFirstShare;
    if (goal_ > lowest_) first = std::min(first, goal_);
    if (first < best) return SearchAt(first, kFirstStrategy, budget);
  }
  const int64_t eighths = step < kEasySteps ? kEasyEighths[step % kEasyEighths.size()]
                                            : kHardEighths[step % kHardEighths.size()];
  if (eighths == 0) return SearchAt(lowest, turns_at_lowest_++, budget);
  const int64_t between = lowest + (best - lowest) / 8 * eighths;
  return SearchAt(std::min(between, best - 1), kBetweenStrategies + turns_between_++, budget);
}

// Half as many again whenever all strategies have had their turn.
uint64_t RungSearch::NodesOf(uint64_t turn) const {
  auto nodes = static_cast<double>(4 * strip_.size.size() + 64);
  for (uint64_t i = strategies_.size(); i <= turn; i += strategies_.size()) nodes *= 1.5;
  return static_cast<uint64_t>(std::min(nodes, 1e18));
}

bool RungSearch::SearchAt(int64_t capacity, uint64_t turn, SearchBudget& budget) {
  const size_t strategy = turn % strategies_.size();
  if (searches_[strategy] == nullptr) {
    searches_[strategy] = std::make_unique<ValleySearch>(strip_, strategies_[strategy]);
  }
  ValleySearch& search = *searches_[strategy];
  switch (search.Search(capacity, NodesOf(turn), budget)) {
    case ValleySearch::Outcome::kFound:
      found_by_ = &search;
      return true;
    case ValleySearch::Outcome::kNone:
      // Heights are multiples of the step.
      lowest_ = std::max(lowest_, capacity / strip_.step * strip_.step + strip_.step);
      return false;
    case ValleySearch::Outcome::kStopped:
      return false;
  }
  return false;
}

}  // namespace tenure
