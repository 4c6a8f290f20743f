#include "server/planner.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "core/base/check.h"
#include "core/plan/late_starts.h"
#include "core/plan/validate_plan.h"
#include "server/plan_refusal.h"

namespace tenure {
namespace {

// How soon a caller that left is noticed.
constexpr Duration kPoll = std::chrono::milliseconds(20);

}  // namespace

Planner::Planner(const PlannerConfig& config, const Clock& clock, PlanMaker make_plan)
    : threads_(config.threads),
      clock_(clock),
      make_plan_(std::move(make_plan)),
      budget_(config.budget),
      cache_(config.cache) {}

StatusOr<PlanAnswer> Planner::PlanFor(PlanInput input, const PlanWish& wish,
                                      const CallLimits& limits) {
  Duration budget;
  {
    const MutexLock lock(mutex_);
    budget = std::min(budget_, wish.budget.value_or(budget_));
  }
  TENURE_ASSIGN_OR_RETURN(
      PlanAnswer answer,
      FindOrMake(std::make_shared<const PlanInput>(std::move(input)), budget, limits));
  if (wish.capacity.has_value() && answer.plan->height > *wish.capacity) {
    return TooHigh(*answer.plan, *wish.capacity, budget, limits);
  }
  return answer;
}

StatusOr<PlanAnswer> Planner::FindOrMake(std::shared_ptr<const PlanInput> input, Duration budget,
                                         const CallLimits& limits) {
  const Digest128 key = PlanKey(*input);
  const auto own = std::make_shared<Planning>(
      Planning{.key = key, .input = input, .budget = budget, .made = {}});
  {
    const MutexLock lock(mutex_);
    while (true) {
      if (auto plan = cache_.Find(key, *input, budget); plan != nullptr) {
        return PlanAnswer{.key = key, .plan = std::move(plan), .cached = true};
      }
      const std::shared_ptr<Planning> other = FindRunning(key, *input);
      if (other == nullptr) {
        if (Free()) break;
        TENURE_RETURN_IF_ERROR(Wait(limits));
        continue;
      }
      while (!other->made.has_value()) TENURE_RETURN_IF_ERROR(Wait(limits));
      TENURE_ASSIGN_OR_RETURN(auto plan, *other->made);
      if (plan->proven || other->budget >= budget) {
        return PlanAnswer{.key = key, .plan = std::move(plan), .cached = true};
      }
    }
    ++busy_;
    running_.push_back(own);
  }
  Made made = Make(std::move(input), budget);
  const MutexLock lock(mutex_);
  if (made.ok()) {
    seconds_.Record((*made)->seconds);
    made = cache_.Put(key, *std::move(made), budget);
  }
  own->made = made;
  std::erase(running_, own);
  --busy_;
  changed_.NotifyAll();
  TENURE_ASSIGN_OR_RETURN(auto plan, std::move(made));
  return PlanAnswer{.key = key, .plan = std::move(plan), .cached = false};
}

Planner::Made Planner::Make(std::shared_ptr<const PlanInput> input, Duration budget) const {
  TENURE_ASSIGN_OR_RETURN(const PlanProblem problem, MakePlanProblem(*input));
  // Without a capacity: the plan is for all who ask for it.
  const Plan plan = make_plan_(problem, {.budget = budget}, clock_);
  std::vector<Bytes> offsets;
  offsets.reserve(input->size());
  for (const uint32_t storage : problem.storage_of) offsets.push_back(plan.offsets[storage]);
  // Whoever maps memory by it trusts it.
  const Status valid = ValidatePlan(*input, offsets, plan.height);
  TENURE_CHECK(valid.ok());
  return std::make_shared<const StoredPlan>(StoredPlan{.input = std::move(input),
                                                       .offsets = std::move(offsets),
                                                       .height = plan.height,
                                                       .lower_bound = plan.lower_bound,
                                                       .proven = plan.proven,
                                                       .seconds = plan.seconds});
}

Status Planner::TooHigh(const StoredPlan& plan, Bytes capacity, Duration budget,
                        const CallLimits& limits) {
  if (plan.input->size() > kMostForLateStarts) return PlanInfeasible(plan, capacity, std::nullopt);
  {
    const MutexLock lock(mutex_);
    while (!Free()) TENURE_RETURN_IF_ERROR(Wait(limits));
    ++busy_;
  }
  const auto late =
      FindLateStarts(*plan.input, capacity, {.budget = budget, .capacity = capacity}, clock_);
  {
    const MutexLock lock(mutex_);
    --busy_;
    changed_.NotifyAll();
  }
  return PlanInfeasible(plan, capacity, late);
}

std::shared_ptr<Planner::Planning> Planner::FindRunning(const Digest128& key,
                                                        const PlanInput& input) const {
  const auto found = std::ranges::find_if(
      running_, [&](const auto& each) { return each->key == key && *each->input == input; });
  return found == running_.end() ? nullptr : *found;
}

Status Planner::Wait(const CallLimits& limits) {
  const Instant now = clock_.Now();
  TENURE_RETURN_IF_ERROR(limits.Check(now));
  if (waiting_ >= kMostWaiting) {
    return Error(Reason::kLimit,
                 "no more calls can wait for plans: " + std::to_string(kMostWaiting),
                 {{"limit", std::to_string(kMostWaiting)}});
  }
  ++waiting_;
  changed_.WaitFor(mutex_,
                   limits.deadline == kNever ? kPoll : std::min(kPoll, limits.deadline - now));
  --waiting_;
  return absl::OkStatus();
}

void Planner::Count(const StatusOr<PlanAnswer>& answer) {
  const MutexLock lock(mutex_);
  ++(!answer.ok() ? plans_refused_ : answer->cached ? plans_cached_ : plans_made_);
}

void Planner::AddTo(MetricFamilies& out) const {
  FamilyBuilder plans(
      "tenure_plans_total",
      "Calls for plans: made for the call, cached (there before, or made for another "
      "call), or refused.",
      prometheus::MetricType::Counter);
  FamilyBuilder seconds("tenure_plan_seconds", "How long it took to make plans.",
                        prometheus::MetricType::Histogram);
  FamilyBuilder bytes("tenure_plan_cache_bytes", "Memory of the daemon's own for plans it keeps.",
                      prometheus::MetricType::Gauge);
  {
    const MutexLock lock(mutex_);
    plans.Add({{"result", "made"}}, plans_made_);
    plans.Add({{"result", "cached"}}, plans_cached_);
    plans.Add({{"result", "refused"}}, plans_refused_);
    seconds.Add({}, seconds_);
    bytes.Add({}, cache_.bytes());
  }
  plans.MoveTo(out);
  seconds.MoveTo(out);
  bytes.MoveTo(out);
}

void Planner::SetBudget(Duration budget) {
  const MutexLock lock(mutex_);
  budget_ = budget;
}

}  // namespace tenure
