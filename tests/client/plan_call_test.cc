#include "client/cpp/plan_call.h"

#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>

#include "core/plan/make_plan.h"
#include "core/plan/plan_cache.h"
#include "core/plan/validate_plan.h"
#include "tenure/errors.h"
#include "tests/core/plan/random_input.h"
#include "tests/support/daemon_process.h"

namespace tenure::client {
namespace {

using std::chrono::seconds;

// Ten thousand buffers, each in use for a few steps.
PlanInput LargeInput() {
  std::mt19937_64 random(11);
  PlanInput input;
  for (int i = 0; i < 10'000; ++i) {
    const auto begin = static_cast<Step>(random() % 9'000);
    input.push_back({.id = "activation_" + std::to_string(i),
                     .size = Bytes(1 + random() % 1'000'000),
                     .alignment = Bytes(256),
                     .first_use = begin,
                     .end = begin + 1 + static_cast<Step>(random() % 40)});
  }
  return input;
}

class PlanCallTest : public ::testing::Test {
 protected:
  absl::StatusOr<PlanReply> Ask(const PlanInput& input, const PlanCallOptions& options = {}) {
    return PlanBuffers(*connection_, input, options, Deadline(seconds(60)));
  }

  DaemonProcess daemon_{DaemonSettings{}};
  const std::shared_ptr<Connection> connection_ = *Connection::Open(
      {.directory = daemon_.directory()}, std::make_shared<Survivors>(), Deadline(seconds(20)));
};

TEST_F(PlanCallTest, TheDaemonPlansTheInputAsItIs) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round) {
    const PlanInput input = RandomInput(random, {});
    const auto reply = Ask(input, {.budget = std::chrono::milliseconds(1)});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->plan_id, PlanKey(input).ToHex()) << round;
    EXPECT_TRUE(ValidatePlan(input, reply->offsets, reply->height).ok()) << round;
    EXPECT_LE(reply->lower_bound, reply->height);
    EXPECT_EQ(reply->planner_version, kPlannerVersion);
  }
}

TEST_F(PlanCallTest, TenThousandBuffersGoInOneCallAndTheSecondTimeTheirPlanIsThere) {
  const PlanInput input = LargeInput();
  const auto first = Ask(input);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->cached);
  EXPECT_GT(first->seconds, Duration(0));
  const auto second = Ask(input);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(second->cached);
  EXPECT_EQ(second->offsets, first->offsets);
}

TEST_F(PlanCallTest, RefusalsKeepTheirReasonAndValues) {
  const PlanInput input = {{.id = "a", .size = MiB(4), .first_use = 0, .end = 3},
                           {.id = "b", .size = MiB(6), .first_use = 1, .end = 4}};
  const absl::Status status = Ask(input, {.capacity = MiB(8)}).status();
  EXPECT_EQ(ErrorReason(status), "PLAN_INFEASIBLE");
  EXPECT_EQ(ErrorValues(status)["alive"], "a, b");
  EXPECT_EQ(ErrorReason(Ask(input, {.capacity = Bytes(0)}).status()), "INVALID_REQUEST");
}

}  // namespace
}  // namespace tenure::client
