#include "core/plan/list_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "core/plan/shortfall.h"
#include "tests/core/plan/random_input.h"

namespace tenure {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

std::optional<std::vector<Step>> Schedule(const PlanInput& input, Bytes capacity) {
  const auto problem = MakePlanProblem(input);
  EXPECT_TRUE(problem.ok()) << problem.status();
  std::vector<bool> stays;
  for (const Storage& storage : problem->storages) {
    stays.push_back(storage.alive.back().end == kNeverEnds);
  }
  return ListSchedule(*problem, stays, capacity);
}

PlanInput Input() {
  return {{.id = "A", .size = Bytes(4), .first_use = 0, .end = 5},
          {.id = "B", .size = Bytes(6), .first_use = 1, .end = 4},
          {.id = "C", .size = Bytes(4), .first_use = 3, .end = 5}};
}

TEST(ListScheduleTest, StartsEachAsSoonAsThereIsRoom) {
  EXPECT_THAT(Schedule(Input(), Bytes(14)), Optional(ElementsAre(0, 0, 0)));
  EXPECT_THAT(Schedule(Input(), Bytes(10)), Optional(ElementsAre(0, 0, 1)));
  EXPECT_THAT(Schedule(Input(), Bytes(9)), Optional(ElementsAre(0, 4, 0)));
  EXPECT_EQ(Schedule(Input(), Bytes(5)), std::nullopt);
}

TEST(ListScheduleTest, WhatNeverEndsLeavesNoRoomAnyMore) {
  PlanInput input = Input();
  input[0].end = std::nullopt;
  EXPECT_THAT(Schedule(input, Bytes(10)), Optional(ElementsAre(0, 0, 1)));
  EXPECT_EQ(Schedule(input, Bytes(9)), std::nullopt);
}

TEST(ListScheduleTest, AGapIsRoom) {
  PlanInput input = Input();
  input[0].end = 9;
  input[0].gaps = {{3, 6}};
  EXPECT_THAT(Schedule(input, Bytes(10)), Optional(ElementsAre(0, 0, 0)));
}

TEST(ListSchedulePropertyTest, NeverNeedsMoreThanTheCapacity) {
  std::mt19937_64 random(20260703);
  int late_ones = 0;
  for (int round = 0; round < 5'000; ++round) {
    const auto problem = MakePlanProblem(
        RandomInput(random, {.buffers = 12, .steps = 12, .size = 8, .fixed = false}));
    ASSERT_TRUE(problem.ok()) << problem.status();
    std::vector<bool> stays;
    for (const Storage& storage : problem->storages) {
      stays.push_back(storage.alive.back().end == kNeverEnds);
    }
    const Bytes capacity(8 + random() % 16);
    const auto delays = ListSchedule(*problem, stays, capacity);
    if (!delays.has_value()) continue;
    PlanProblem late = *problem;
    for (size_t i = 0; i < delays->size(); ++i) {
      for (Lifespan& span : late.storages[i].alive) {
        span.begin += (*delays)[i];
        if (span.end != kNeverEnds) span.end += (*delays)[i];
      }
      late_ones += (*delays)[i] > 0 ? 1 : 0;
    }
    ASSERT_FALSE(FindShortfall(late, capacity).has_value()) << "round " << round;
  }
  EXPECT_GT(late_ones, 1'000);
}

}  // namespace
}  // namespace tenure
