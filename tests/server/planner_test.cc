#include "server/planner.h"

#include <atomic>
#include <chrono>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/plan_refusal.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::Pair;

PlanInput InputOf(const std::string& id) {
  return {{.id = id, .size = MiB(1), .first_use = 0, .end = 2, .gaps = {}}};
}

// A planner whose plannings begin, and end when they are let go.
class PlannerTest : public ::testing::Test {
 protected:
  void TearDown() override { LetGo(); }

  Plan Make(const PlanProblem& problem, const PlanLimits& limits, const Clock& clock) {
    const MutexLock lock(mutex_);
    budgets_.push_back(limits.budget);
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    Plan plan = MakePlan(problem, limits, clock);
    plan.proven = proven_;
    return plan;
  }

  void Hold() {
    const MutexLock lock(mutex_);
    held_ = true;
  }
  void LetGo() {
    const MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  void AwaitPlannings(size_t count) {
    const MutexLock lock(mutex_);
    while (budgets_.size() < count) changed_.Wait(mutex_);
  }
  std::vector<Duration> budgets() {
    const MutexLock lock(mutex_);
    return budgets_;
  }

  std::future<StatusOr<PlanAnswer>> Begin(const PlanInput& input, const PlanWish& wish = {},
                                          const CallLimits& limits = {}) {
    return std::async(std::launch::async,
                      [=, this] { return planner_.PlanFor(input, wish, limits); });
  }
  StatusOr<PlanAnswer> PlanFor(const PlanInput& input, Duration budget) {
    return planner_.PlanFor(input, {.budget = budget}, {});
  }
  // Limits of a call that ends at once, if it has to wait.
  CallLimits NoTime() const { return {.deadline = clock_.Now(), .cancelled = {}}; }

  SteadyClock clock_;
  bool proven_ = true;  // what plans say of themselves
  Mutex mutex_;
  CondVar changed_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Duration> budgets_ ABSL_GUARDED_BY(mutex_);  // of the plannings that began
  Planner planner_{PlannerConfig{.budget = milliseconds(100), .cache = MiB(1), .threads = 1},
                   clock_,
                   [this](const PlanProblem& problem, const PlanLimits& limits,
                          const Clock& clock) { return Make(problem, limits, clock); }};
};

TEST_F(PlannerTest, CallsForOneInputAtTheSameTimeJoinOnePlanning) {
  Hold();
  auto first = Begin(InputOf("a"));
  AwaitPlannings(1);
  auto second = Begin(InputOf("a"));
  auto third = Begin(InputOf("a"));
  EXPECT_EQ(second.wait_for(milliseconds(50)), std::future_status::timeout);
  LetGo();
  const auto made = first.get();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->cached);
  for (auto* joined : {&second, &third}) {
    const auto answer = joined->get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(answer->cached);
    EXPECT_EQ(answer->plan, made->plan);
  }
  EXPECT_EQ(budgets().size(), 1U);
}

TEST_F(PlannerTest, PlansOfOtherInputsWaitTheirTurn) {
  Hold();
  auto first = Begin(InputOf("a"));
  AwaitPlannings(1);
  auto second = Begin(InputOf("b"));
  EXPECT_EQ(second.wait_for(milliseconds(50)), std::future_status::timeout);
  EXPECT_EQ(budgets().size(), 1U);
  LetGo();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(budgets().size(), 2U);
}

TEST_F(PlannerTest, WhoCannotWaitAnyMoreIsToldSoAndThePlanIsMadeAnyway) {
  Hold();
  std::atomic<bool> cancelled = false;
  auto first = Begin(InputOf("a"));
  AwaitPlannings(1);
  EXPECT_TRUE(HasReason(Begin(InputOf("a"), {}, NoTime()).get().status(), Reason::kDeadline));
  EXPECT_TRUE(HasReason(Begin(InputOf("b"), {}, NoTime()).get().status(), Reason::kDeadline));
  auto leaving =
      Begin(InputOf("a"), {}, {.deadline = kNever, .cancelled = [&] { return cancelled.load(); }});
  cancelled = true;
  EXPECT_TRUE(HasReason(leaving.get().status(), Reason::kCancelled));
  LetGo();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(planner_.PlanFor(InputOf("a"), {}, NoTime()).ok());
}

TEST_F(PlannerTest, MoreCallsThanMayWaitAreRefused) {
  Hold();
  std::vector<std::future<StatusOr<PlanAnswer>>> calls;
  calls.push_back(Begin(InputOf("a")));
  AwaitPlannings(1);
  // One more than may wait; which of them is refused is open.
  std::atomic<int> refused = 0;
  std::vector<std::thread> waiting;
  for (int i = 0; i <= Planner::kMostWaiting; ++i) {
    waiting.emplace_back([&, i] {
      const auto answer = planner_.PlanFor(InputOf(std::to_string(i)), {}, {});
      if (answer.ok()) return;
      EXPECT_TRUE(HasReason(answer.status(), Reason::kLimit)) << answer.status();
      ++refused;
      refused.notify_one();
    });
  }
  refused.wait(0);
  LetGo();
  for (std::thread& each : waiting) each.join();
  EXPECT_TRUE(calls[0].get().ok());
  EXPECT_EQ(refused, 1);
}

TEST_F(PlannerTest, ThePlanOfALargerBudgetReplacesOneThatIsNotProven) {
  proven_ = false;
  EXPECT_FALSE(PlanFor(InputOf("a"), milliseconds(10))->cached);
  EXPECT_TRUE(PlanFor(InputOf("a"), milliseconds(5))->cached);
  proven_ = true;
  EXPECT_FALSE(PlanFor(InputOf("a"), milliseconds(20))->cached);
  EXPECT_TRUE(PlanFor(InputOf("a"), milliseconds(90))->cached);
  EXPECT_EQ(budgets(), (std::vector<Duration>{milliseconds(10), milliseconds(20)}));
}

TEST_F(PlannerTest, WhoHasALargerBudgetThanThePlanningItJoinsPlansAnew) {
  proven_ = false;
  Hold();
  auto first = Begin(InputOf("a"), {.budget = milliseconds(10)});
  AwaitPlannings(1);
  auto second = Begin(InputOf("a"), {.budget = milliseconds(20)});
  EXPECT_EQ(second.wait_for(milliseconds(30)), std::future_status::timeout);
  LetGo();
  EXPECT_FALSE(first.get()->cached);
  EXPECT_FALSE(second.get()->cached);
  EXPECT_EQ(budgets(), (std::vector<Duration>{milliseconds(10), milliseconds(20)}));
}

TEST_F(PlannerTest, TheConfiguredBudgetIsTheMost) {
  proven_ = false;
  EXPECT_TRUE(PlanFor(InputOf("a"), std::chrono::hours(1)).ok());
  planner_.SetBudget(milliseconds(30));
  EXPECT_TRUE(PlanFor(InputOf("b"), std::chrono::hours(1)).ok());
  EXPECT_TRUE(planner_.PlanFor(InputOf("c"), {}, {}).ok());
  EXPECT_EQ(budgets(),
            (std::vector<Duration>{milliseconds(100), milliseconds(30), milliseconds(30)}));
}

TEST_F(PlannerTest, ThoseWhoJoinAnInputThatMakesNoSenseAreToldToo) {
  Hold();
  auto first = Begin(InputOf("a"));
  AwaitPlannings(1);
  auto second = Begin(InputOf(""));
  auto third = Begin(InputOf(""));
  LetGo();
  EXPECT_TRUE(first.get().ok());
  for (auto* refused : {&second, &third}) {
    EXPECT_TRUE(HasReason(refused->get().status(), Reason::kInvalidPlanInput));
  }
}

TEST(PlanInfeasibleTest, WithoutAProofItSaysWhatWasFound) {
  const PlanInput input = {{.id = "a", .size = Bytes(4), .first_use = 0, .end = 2}};
  const StoredPlan plan{.input = std::make_shared<const PlanInput>(input),
                        .offsets = {Bytes(2)},
                        .height = Bytes(6),
                        .lower_bound = Bytes(4)};
  const Status status = PlanInfeasible(plan, Bytes(5), std::nullopt);
  EXPECT_TRUE(HasReason(status, Reason::kPlanInfeasible));
  const ErrorValues values = DetailOf(status)->values;
  EXPECT_EQ(values, (ErrorValues{{"capacity", "5"}, {"height", "6"}, {"lower_bound", "4"}}));
}

TEST(PlanInfeasibleTest, NamesTwentyBuffersAtMost) {
  PlanInput input;
  for (int i = 0; i < 30; ++i) {
    input.push_back({.id = std::to_string(i), .size = Bytes(1), .first_use = 0, .end = 1});
  }
  LateStarts late;
  for (uint32_t i = 0; i < 30; ++i) late.starts.push_back({.buffer = i, .first_use = 7});
  const StoredPlan plan{.input = std::make_shared<const PlanInput>(input), .height = Bytes(30)};
  const ErrorValues values = DetailOf(PlanInfeasible(plan, Bytes(3), late))->values;
  EXPECT_THAT(values,
              Contains(Pair("alive",
                            "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, "
                            "19")));
  EXPECT_THAT(values, Contains(Pair("late_starts", ::testing::EndsWith("18 at 7, 19 at 7"))));
}

}  // namespace
}  // namespace tenure
