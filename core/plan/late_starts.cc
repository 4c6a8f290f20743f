#include "core/plan/late_starts.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/plan/list_schedule.h"
#include "core/plan/shortfall.h"

namespace tenure {
namespace {

// The delay of each storage that has one.
using Delays = std::map<uint32_t, Step>;

PlanInput Delayed(const PlanInput& input, const std::vector<uint32_t>& storage_of,
                  const Delays& delays) {
  PlanInput late = input;
  for (size_t i = 0; i < late.size(); ++i) {
    const auto delay = delays.find(storage_of[i]);
    if (delay == delays.end()) continue;
    late[i].first_use += delay->second;
    if (late[i].end.has_value()) *late[i].end += delay->second;
    for (Lifespan& gap : late[i].gaps) {
      gap = {gap.begin + delay->second, gap.end + delay->second};
    }
  }
  return late;
}

// How much later each storage of a set would have to start at least, to be apart from one of the
// others at one place where the two meet now. Where it starts, something else of the set ends.
class Waits {
 public:
  // `at` is a step where all of `storages` are alive; without one, all places where two of them
  // meet count.
  Waits(const PlanProblem& problem, const std::vector<uint32_t>& storages, std::optional<Step> at) {
    for (const uint32_t storage : storages) {
      for (const Lifespan& span : problem.storages[storage].alive) {
        if (at.has_value() && (span.begin > *at || span.end <= *at)) continue;
        pieces_.push_back({storage, span});
      }
    }
  }

  // By storage; those that nothing of the set can be waited for are left out.
  Delays Shortest() const {
    Delays shortest;
    for (const Piece& late : pieces_) {
      for (const Piece& other : pieces_) {
        if (late.storage == other.storage || !Overlap(late.span, other.span)) continue;
        if (other.span.end == kNeverEnds) continue;
        const Step wait = other.span.end - late.span.begin;
        const auto [known, is_new] = shortest.try_emplace(late.storage, wait);
        if (!is_new) known->second = std::min(known->second, wait);
      }
    }
    return shortest;
  }

 private:
  struct Piece {
    uint32_t storage;
    Lifespan span;
  };
  std::vector<Piece> pieces_;
};

class LateStartSearch {
 public:
  LateStartSearch(const PlanInput& input, PlanProblem problem, Bytes capacity,
                  const PlanLimits& limits, const Clock& clock)
      : input_(input),
        problem_(std::move(problem)),
        capacity_(capacity),
        limits_(limits),
        clock_(clock),
        deadline_(After(clock.Now(), limits.budget)),
        stays_(problem_.storages.size()) {
    for (size_t i = 0; i < input_.size(); ++i) {
      if (input_[i].output || !input_[i].end.has_value()) stays_[problem_.storage_of[i]] = true;
    }
  }

  std::optional<LateStarts> Run() {
    std::optional<LateStarts> in_turn = InTurn();
    if (!in_turn.has_value()) return std::nullopt;
    Reach(0, {});
    while (!open_.empty() && !Spent()) {
      const auto [delay, delays] = open_.top();
      open_.pop();
      if (std::optional<LateStarts> found = Visit(delay, delays); found.has_value()) return found;
    }
    std::optional<LateStarts> scheduled = Schedule();
    return scheduled.has_value() && scheduled->delay < in_turn->delay ? scheduled : in_turn;
  }

 private:
  using Reached = std::pair<Step, Delays>;

  bool Spent() {
    ++nodes_;
    return nodes_ > limits_.nodes.value_or(UINT64_MAX) || clock_.Now() >= deadline_;
  }

  void Reach(Step delay, Delays delays) {
    if (seen_.insert(delays).second) open_.emplace(delay, std::move(delays));
  }

  Plan PlanOf(const PlanProblem& problem, Duration left) const {
    const Duration budget = std::max(left, Duration{0}) / 4;
    return MakePlan(problem, {.budget = budget, .nodes = limits_.nodes, .capacity = capacity_},
                    clock_);
  }

  // nullopt if the plan does not fit.
  std::optional<LateStarts> Found(const Delays& delays, PlanInput late, Plan plan) const {
    if (plan.height > capacity_) return std::nullopt;
    LateStarts found{.input = std::move(late), .plan = std::move(plan)};
    for (const auto& [storage, delay] : delays) found.delay += delay;
    for (uint32_t i = 0; i < input_.size(); ++i) {
      if (delays.contains(problem_.storage_of[i])) {
        found.starts.push_back({i, found.input[i].first_use});
      }
    }
    return found;
  }

  // One storage after another, and last, together, those that live to the end: where that does not
  // fit nothing does, so that no search looks for what is not there.
  std::optional<LateStarts> InTurn() const {
    std::vector<uint32_t> order(problem_.storages.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::sort(order, {}, [&](uint32_t i) {
      return std::tuple(bool{stays_[i]}, problem_.storages[i].alive.front().begin, i);
    });
    Delays delays;
    Step free_at = 0;
    for (const uint32_t i : order) {
      const std::vector<Lifespan>& alive = problem_.storages[i].alive;
      const Step wait = std::max<Step>(free_at - alive.front().begin, 0);
      if (wait > 0) delays.emplace(i, wait);
      if (!stays_[i]) free_at = alive.back().end + wait;
    }
    return FoundBy(delays);
  }

  std::optional<LateStarts> FoundBy(const Delays& delays) const {
    PlanInput late = Delayed(input_, problem_.storage_of, delays);
    const auto problem = MakePlanProblem(late);
    if (!problem.ok()) return std::nullopt;
    Plan plan = PlanOf(*problem, limits_.budget);
    return Found(delays, std::move(late), std::move(plan));
  }

  // What lies behind a state, or what it is if a plan fits.
  std::optional<LateStarts> Visit(Step delay, const Delays& delays) {
    PlanInput late = Delayed(input_, problem_.storage_of, delays);
    const auto problem = MakePlanProblem(late);
    if (!problem.ok()) {  // fixed on top of one another, or beyond the last step
      all_proven_ = false;
      return std::nullopt;
    }
    std::optional<Shortfall> shortfall = FindShortfall(*problem, capacity_);
    std::optional<Step> at;
    std::vector<uint32_t> meeting;
    if (shortfall.has_value()) {
      at = shortfall->step;
      meeting = std::move(shortfall->storages);
    } else {
      Plan plan = PlanOf(*problem, deadline_ - clock_.Now());
      const bool proven = plan.proven;
      std::optional<LateStarts> found = Found(delays, std::move(late), std::move(plan));
      if (found.has_value()) {
        found->proven = all_proven_;
        return found;
      }
      all_proven_ = all_proven_ && proven;
      meeting.resize(problem->storages.size());
      std::iota(meeting.begin(), meeting.end(), 0);
    }
    for (const auto& [storage, wait] : Waits(*problem, meeting, at).Shortest()) {
      Delays more = delays;
      more[storage] += wait;
      Reach(delay + wait, std::move(more));
    }
    return std::nullopt;
  }

  // Where the search took too long: a list schedule, of less and less of the capacity, since a plan
  // may need more than what is alive.
  std::optional<LateStarts> Schedule() const {
    for (const uint64_t parts :
         {0U, 1U, 2U, 4U, 8U, 16U, 32U, 64U}) {  // of 256, that are left free
      const Bytes target = capacity_ - Bytes(capacity_.count() / 256 * parts);
      const std::optional<std::vector<Step>> schedule = ListSchedule(problem_, stays_, target);
      if (!schedule.has_value()) continue;
      Delays delays;
      for (uint32_t i = 0; i < schedule->size(); ++i) {
        if ((*schedule)[i] > 0) delays.emplace(i, (*schedule)[i]);
      }
      std::optional<LateStarts> found = FoundBy(delays);
      if (found.has_value()) return found;
    }
    return std::nullopt;
  }

  const PlanInput& input_;
  const PlanProblem problem_;  // of the input
  const Bytes capacity_;
  const PlanLimits& limits_;
  const Clock& clock_;
  const Instant deadline_;
  std::vector<bool> stays_;  // by storage, whether it lives to the end

  std::priority_queue<Reached, std::vector<Reached>, std::greater<>> open_;
  std::set<Delays> seen_;
  uint64_t nodes_ = 0;
  bool all_proven_ = true;  // of every state that was given up: no plan of it fits
};

}  // namespace

std::optional<LateStarts> FindLateStarts(const PlanInput& input, Bytes capacity,
                                         const PlanLimits& limits, const Clock& clock) {
  auto problem = MakePlanProblem(input);
  TENURE_CHECK(problem.ok());
  return LateStartSearch(input, *std::move(problem), capacity, limits, clock).Run();
}

}  // namespace tenure
