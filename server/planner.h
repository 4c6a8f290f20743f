#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/duration_histogram.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/plan/make_plan.h"
#include "core/plan/plan_cache.h"
#include "core/plan/plan_input.h"
#include "core/store/load.h"
#include "server/config.h"
#include "server/family_builder.h"

namespace tenure {

// Of plannings, around the budgets that there are.
inline constexpr std::array kPlanBounds = {0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05,
                                           0.1,    0.25,   0.5,   1.0,   5.0,  30.0};

// What a caller wants of a plan.
struct PlanWish {
  std::optional<Duration> budget{};  // nullopt: as configured, which is also the most
  std::optional<Bytes> capacity{};   // nullopt: any height will do
};

struct PlanAnswer {
  Digest128 key;
  std::shared_ptr<const StoredPlan> plan;  // never null
  bool cached = false;                     // it was there, or another caller had it made
};

// Makes plans, a few at a time, on their callers' threads, and keeps them. Callers who ask for the
// same input at once wait for one planning. Every plan was checked by ValidatePlan. Thread-safe.
class Planner {
 public:
  // What makes plans: MakePlan, but for tests.
  using PlanMaker = std::function<Plan(const PlanProblem&, const PlanLimits&, const Clock&)>;

  // So many calls wait at most. Each holds a thread, and its input.
  static constexpr int kMostWaiting = 32;
  // Of inputs that are larger, nothing is said about starting later.
  static constexpr size_t kMostForLateStarts = 10'000;

  // `clock` outlives the planner.
  Planner(const PlannerConfig& config, const Clock& clock, PlanMaker make_plan = MakePlan);

  // INVALID_PLAN_INPUT as MakePlanProblem; PLAN_INFEASIBLE as PlanInfeasible; LIMIT if there are
  // too many who wait; DEADLINE and CANCELLED for those who cannot wait any more. What was begun is
  // finished, and kept, even if its caller leaves.
  StatusOr<PlanAnswer> PlanFor(PlanInput input, const PlanWish& wish, const CallLimits& limits);

  // What a call came to, for the metrics.
  void Count(const StatusOr<PlanAnswer>& answer);
  void AddTo(MetricFamilies& out) const;

  // For plannings from now on.
  void SetBudget(Duration budget);

 private:
  using Made = StatusOr<std::shared_ptr<const StoredPlan>>;
  // One that runs, or has just ended.
  struct Planning {
    Digest128 key;
    std::shared_ptr<const PlanInput> input;
    Duration budget;
    std::optional<Made> made;  // guarded by mutex_
  };

  StatusOr<PlanAnswer> FindOrMake(std::shared_ptr<const PlanInput> input, Duration budget,
                                  const CallLimits& limits);
  Made Make(std::shared_ptr<const PlanInput> input, Duration budget) const;
  // Why `plan` is too high; takes its turn, as a planning does.
  Status TooHigh(const StoredPlan& plan, Bytes capacity, Duration budget, const CallLimits& limits);

  bool Free() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return busy_ < threads_; }
  std::shared_ptr<Planning> FindRunning(const Digest128& key, const PlanInput& input) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Until something changes, perhaps. LIMIT, DEADLINE, CANCELLED.
  Status Wait(const CallLimits& limits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int threads_;
  const Clock& clock_;
  const PlanMaker make_plan_;

  mutable Mutex mutex_;
  CondVar changed_;
  Duration budget_ ABSL_GUARDED_BY(mutex_);
  PlanCache cache_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<Planning>> running_ ABSL_GUARDED_BY(mutex_);
  // Who plans, or looks for what may start later: running_.size() <= busy_ <= threads_.
  int busy_ ABSL_GUARDED_BY(mutex_) = 0;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t plans_made_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t plans_cached_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t plans_refused_ ABSL_GUARDED_BY(mutex_) = 0;
  DurationHistogram<kPlanBounds> seconds_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
