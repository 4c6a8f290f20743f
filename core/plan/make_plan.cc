#include "core/plan/make_plan.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/plan/canonical_search.h"
#include "core/plan/first_fit.h"
#include "core/plan/order_search.h"
#include "core/plan/packed_problem.h"
#include "core/plan/rung_search.h"
#include "core/plan/search_budget.h"
#include "core/plan/strip_problem.h"

namespace tenure {
namespace {

// Up to so many storages a dive of the rung search takes less time than first fit, and a node of
// the canonical search is not too large.
constexpr uint32_t kFewStorages = 512;
// Beyond so many one takes too long.
constexpr uint32_t kManyStorages = 4096;
// How much of the time goes to the rung search, for each part that goes to the order search.
constexpr uint64_t kShareOfRungs = 8;

class Planner {
 public:
  Planner(const PlanProblem& problem, const PlanLimits& limits, const Clock& clock)
      : budget_(limits, clock),
        packed_(Pack(problem)),
        bound_(LowerBoundOf(packed_)),
        goal_(std::max(bound_, limits.capacity.value_or(Bytes(0)).count())) {}

  Plan Make() {
    if (packed_.storages() > 0) {
      Begin();
      while (!Done()) Improve();
    }
    Plan plan;
    plan.offsets.reserve(best_.size());
    for (const uint64_t offset : best_) plan.offsets.emplace_back(offset);
    plan.height = Bytes(height_);
    plan.lower_bound = Bytes(bound_);
    plan.proven = proven_ || height_ == bound_;
    plan.nodes = budget_.nodes();
    plan.seconds = budget_.elapsed();
    return plan;
  }

 private:
  bool Done() const { return proven_ || height_ <= goal_ || budget_.spent(); }

  void Offer(const std::vector<uint64_t>& offsets) {
    const uint64_t height = HeightOf(packed_, offsets);
    if (!best_.empty() && height >= height_) return;
    height_ = height;
    best_ = offsets;
  }

  // Makes the searches that suit the problem, and a first plan.
  void Begin() {
    const bool fixed = std::ranges::any_of(
        packed_.fixed_offset, [](uint64_t offset) { return offset != PackedProblem::kNotFixed; });
    const bool many = packed_.storages() > kManyStorages;
    if (!fixed && !many) rungs_.emplace(strip_.emplace(MakeStrip(packed_)), goal_);
    const bool few = packed_.storages() <= kFewStorages;
    if (few && !(strip_.has_value() && strip_->exact)) canonical_.emplace(packed_);
    if (few && rungs_.has_value()) SearchRungs();
    if (!best_.empty()) return;
    FirstFit first_fit(packed_);
    first_fit.PlaceAll(OrderStorages(packed_, FirstFitOrder::kLargest), budget_);
    Offer(first_fit.offsets());
    if (!many || Done()) return;
    const std::vector<uint32_t> peak_first =
        OrderStorages(packed_, FirstFitOrder::kPeakThenLargest);
    if (first_fit.Place(peak_first, budget_)) Offer(first_fit.offsets());
  }

  void Improve() {
    const uint64_t before = budget_.words();
    const bool rungs = rungs_.has_value() && !rungs_->none_below(height_);
    if (rungs && words_of_rungs_ <= kShareOfRungs * words_of_orders_) {
      SearchRungs();
      words_of_rungs_ += budget_.words() - before;
      return;
    }
    if (canonical_.has_value()) SearchCanonically();
    if (!Done()) SearchOrders();
    words_of_orders_ += budget_.words() - before;
  }

  void SearchRungs() {
    const uint64_t height =
        best_.empty() ? static_cast<uint64_t>(strip_->bound + strip_->bound / 2) : height_;
    if (rungs_->Step(height, budget_)) Offer(rungs_->offsets());
    if (!best_.empty() && strip_->exact && rungs_->none_below(height_)) proven_ = true;
  }

  void SearchCanonically() {
    const uint64_t nodes = uint64_t{64} << std::min<uint32_t>(canonical_turns_++ / 2, 40);
    switch (canonical_->Search(height_, nodes, budget_)) {
      case CanonicalSearch::Outcome::kFound:
        Offer(canonical_->offsets());
        break;
      case CanonicalSearch::Outcome::kNone:
        proven_ = true;
        break;
      case CanonicalSearch::Outcome::kStopped:
        break;
    }
  }

  // Mostly from the longest first, which ends lower, and from the largest, which begins lower.
  void SearchOrders() {
    const bool by_size = order_turns_++ % 4 == 3;
    std::optional<OrderSearch>& orders = by_size ? by_size_ : by_length_;
    if (!orders.has_value()) {
      const FirstFitOrder first = by_size ? FirstFitOrder::kLargest : FirstFitOrder::kLongest;
      orders.emplace(packed_, goal_, OrderStorages(packed_, first));
    }
    if (orders->Step(budget_)) Offer(orders->offsets());
  }

  SearchBudget budget_;
  const PackedProblem packed_;
  const uint64_t bound_;
  const uint64_t goal_;
  std::vector<uint64_t> best_;
  uint64_t height_ = 0;  // of the best plan
  bool proven_ = false;  // no plan is lower

  std::optional<StripProblem> strip_;  // unless something is fixed, or there are too many
  std::optional<RungSearch> rungs_;    // of the strip
  uint64_t words_of_rungs_ = 0;
  std::optional<CanonicalSearch> canonical_;  // of few storages, unless the strip is exact
  uint32_t canonical_turns_ = 0;
  std::optional<OrderSearch> by_length_;
  std::optional<OrderSearch> by_size_;
  uint32_t order_turns_ = 0;
  uint64_t words_of_orders_ = 0;
};

}  // namespace

Plan MakePlan(const PlanProblem& problem, const PlanLimits& limits, const Clock& clock) {
  return Planner(problem, limits, clock).Make();
}

}  // namespace tenure
