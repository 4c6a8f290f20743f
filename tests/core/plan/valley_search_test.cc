#include "core/plan/valley_search.h"

#include <cstdint>
#include <gtest/gtest.h>
#include <vector>

#include "core/base/clock.h"
#include "core/plan/packed_problem.h"
#include "core/plan/strip_problem.h"
#include "tests/support/plan_instances.h"

namespace tenure {
namespace {

using Order = ValleyStrategy::Order;
using Choice = ValleyStrategy::Choice;
using Outcome = ValleySearch::Outcome;

std::vector<ValleyStrategy> AllStrategies() {
  std::vector<ValleyStrategy> strategies;
  for (const Order order : {Order::kWidth, Order::kSize, Order::kArea, Order::kWidthArea,
                            Order::kSizeArea, Order::kNarrow}) {
    for (const Choice choice : {Choice::kFewest, Choice::kSlack, Choice::kSlackTimesFewest,
                                Choice::kNarrowest, Choice::kLowest, Choice::kLowTimesFewest}) {
      strategies.push_back({order, choice});
    }
  }
  return strategies;
}

class ValleySearchTest : public testing::Test {
 protected:
  static StripProblem StripOf(const std::string& instance) {
    return MakeStrip(Pack(*MakePlanProblem(ReadPlanInstance(instance))));
  }

  const SteadyClock clock_{};
  SearchBudget budget_{{.budget = kForever}, clock_};
};

TEST_F(ValleySearchTest, EveryStrategyIsComplete) {
  for (const char* name : {"a.6", "b.6", "c.8", "d.9", "e.12", "f.14", "g.7"}) {
    const StripProblem strip = StripOf(std::string("omnimalloc-small/") + name);
    for (const ValleyStrategy& strategy : AllStrategies()) {
      ValleySearch search(strip, strategy);
      EXPECT_EQ(search.Search(strip.bound, 10'000, budget_), Outcome::kFound) << name;
      EXPECT_EQ(search.Search(strip.bound - 1, 10'000, budget_), Outcome::kNone) << name;
    }
  }
}

TEST_F(ValleySearchTest, TheLimitStopsIt) {
  const StripProblem strip = StripOf("minimalloc/D.1048576");
  ValleySearch search(strip, {});
  EXPECT_EQ(search.Search(strip.bound, 100, budget_), Outcome::kStopped);
}

TEST_F(ValleySearchTest, ASearchLeavesNothingBehindForTheNext) {
  const StripProblem strip = StripOf("minimalloc/B.1048576");
  ValleySearch search(strip, {.order = Order::kWidth, .choice = Choice::kFewest});
  EXPECT_EQ(search.Search(strip.bound, 100, budget_), Outcome::kStopped);
  ASSERT_EQ(search.Search(2 * strip.bound, 10'000, budget_), Outcome::kFound);
  for (size_t i = 0; i < strip.size.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          strip.range[i].begin < strip.range[j].end && strip.range[j].begin < strip.range[i].end;
      const auto end = [&](size_t k) {
        return search.offsets()[k] + static_cast<uint64_t>(strip.size[k]);
      };
      EXPECT_TRUE(!together || end(i) <= search.offsets()[j] || end(j) <= search.offsets()[i]);
    }
  }
}

}  // namespace
}  // namespace tenure
