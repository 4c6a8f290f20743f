#include "core/plan/late_starts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "core/plan/validate_plan.h"
#include "tests/core/plan/random_input.h"

namespace tenure {
namespace {

using ::testing::ElementsAre;

const PlanLimits kPatient = {.budget = std::chrono::minutes(1)};

std::optional<LateStarts> Find(const PlanInput& input, Bytes capacity) {
  return FindLateStarts(input, capacity, kPatient, SteadyClock());
}

void ExpectPlanHolds(const LateStarts& late, Bytes capacity) {
  const auto problem = MakePlanProblem(late.input);
  ASSERT_TRUE(problem.ok()) << problem.status();
  std::vector<Bytes> offsets;
  for (const uint32_t storage : problem->storage_of) {
    offsets.push_back(late.plan.offsets[storage]);
  }
  EXPECT_EQ(ValidatePlan(late.input, offsets, capacity), absl::OkStatus());
}

TEST(LateStartsTest, TheSmallestDelayIsFound) {
  const PlanInput input = {{.id = "A", .size = MiB(4), .first_use = 0, .end = 5},
                           {.id = "B", .size = MiB(6), .first_use = 1, .end = 4},
                           {.id = "C", .size = MiB(4), .first_use = 3, .end = 5}};
  const auto late = Find(input, MiB(10));
  ASSERT_TRUE(late.has_value());
  EXPECT_THAT(late->starts, ElementsAre(LateStart{.buffer = 2, .first_use = 4}));
  EXPECT_EQ(late->delay, 1);
  EXPECT_TRUE(late->proven);
  ExpectPlanHolds(*late, MiB(10));
}

TEST(LateStartsTest, NothingIsLateIfAPlanFits) {
  const auto late = Find({{.id = "A", .size = MiB(4), .first_use = 0, .end = 5}}, MiB(4));
  ASSERT_TRUE(late.has_value());
  EXPECT_TRUE(late->starts.empty());
  EXPECT_EQ(late->delay, 0);
}

TEST(LateStartsTest, NoDelayHelpsWhatIsTooLargeOrNeverEnds) {
  EXPECT_FALSE(Find({{.id = "A", .size = MiB(4), .first_use = 0, .end = 5}}, MiB(3)).has_value());
  EXPECT_FALSE(Find({{.id = "A", .size = MiB(4), .first_use = 0, .end = std::nullopt},
                     {.id = "B", .size = MiB(4), .first_use = 0, .end = std::nullopt}},
                    MiB(7))
                   .has_value());
}

TEST(LateStartsTest, WithoutTimeSomeDelayIsFoundAndNotCalledTheLeast) {
  PlanInput input;
  for (int i = 0; i < 60; ++i) {
    input.push_back(
        {.id = std::to_string(i), .size = MiB(1), .first_use = i % 7, .end = 10 + i % 5});
  }
  const auto late = FindLateStarts(input, MiB(10), {.budget = std::chrono::minutes(1), .nodes = 10},
                                   SteadyClock());
  ASSERT_TRUE(late.has_value());
  EXPECT_FALSE(late->proven);
  ExpectPlanHolds(*late, MiB(10));
}

// The least sum of delays, each at most `most`, by trying all; -1 if there is none. A plan is found
// by trying all offsets, too.
class ByTryingAll {
 public:
  ByTryingAll(PlanInput input, Bytes capacity, Step most)
      : input_(std::move(input)), capacity_(capacity), most_(most) {
    const auto problem = MakePlanProblem(input_);
    storage_of_ = problem->storage_of;
    delays_.resize(problem->storages.size());
    Delay(0, 0);
  }
  Step best() const { return best_; }

 private:
  void Delay(size_t storage, Step sum) {
    if (best_ >= 0 && sum >= best_) return;
    if (storage == delays_.size()) {
      if (Fits()) best_ = sum;
      return;
    }
    for (delays_[storage] = 0; delays_[storage] <= most_; ++delays_[storage]) {
      Delay(storage + 1, sum + delays_[storage]);
    }
  }

  bool Fits() const {
    PlanInput late = input_;
    for (size_t i = 0; i < late.size(); ++i) {
      const Step delay = delays_[storage_of_[i]];
      late[i].first_use += delay;
      if (late[i].end.has_value()) *late[i].end += delay;
      for (Lifespan& gap : late[i].gaps) gap = {gap.begin + delay, gap.end + delay};
    }
    const auto problem = MakePlanProblem(late);
    return problem.ok() && Place(problem->storages, 0);
  }

  bool Place(const std::vector<Storage>& storages, size_t next) const {
    if (next == storages.size()) return true;
    const Storage& storage = storages[next];
    for (Bytes offset; offset + storage.size <= capacity_; offset += storage.alignment) {
      bool free = true;
      for (size_t i = 0; i < next && free; ++i) {
        free = offset + storage.size <= offsets_[i] || offset >= offsets_[i] + storages[i].size ||
               !AliveTogether(storage, storages[i]);
      }
      if (!free) continue;
      offsets_[next] = offset;
      if (Place(storages, next + 1)) return true;
    }
    return false;
  }

  const PlanInput input_;
  const Bytes capacity_;
  const Step most_;
  std::vector<uint32_t> storage_of_;
  std::vector<Step> delays_;
  mutable Bytes offsets_[8];
  Step best_ = -1;
};

TEST(LateStartsPropertyTest, ProvenDelaysAreTheLeast) {
  std::mt19937_64 random(20260702);
  int late_ones = 0;
  for (int round = 0; round < 1'500; ++round) {
    const PlanInput input =
        RandomInput(random, {.buffers = 4, .steps = 4, .size = 4, .fixed = false});
    const Bytes capacity(4 + random() % 3);
    const auto late = Find(input, capacity);
    const Step least = ByTryingAll(input, capacity, 12).best();
    ASSERT_EQ(late.has_value(), least >= 0) << "round " << round;
    if (!late.has_value()) continue;
    ASSERT_TRUE(late->proven) << "round " << round;
    ASSERT_EQ(late->delay, least) << "round " << round;
    ExpectPlanHolds(*late, capacity);
    late_ones += least > 0 ? 1 : 0;
  }
  EXPECT_GT(late_ones, 200);
}

}  // namespace
}  // namespace tenure
