#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "core/plan/make_plan.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;

void AddBuffer(v1::PlanBuffersRequest& request, const std::string& id, uint64_t size,
               int64_t first_use, int64_t end) {
  request.add_ids(id);
  request.add_sizes(size);
  request.add_first_uses(first_use);
  request.add_ends(end);
}

// A and C do not meet, unless A lives to `end_of_a`.
v1::PlanBuffersRequest ThreeBuffers(int64_t end_of_a = 3) {
  v1::PlanBuffersRequest request;
  AddBuffer(request, "A", 4 * kMiB, 0, end_of_a);
  AddBuffer(request, "B", 6 * kMiB, 1, 4);
  AddBuffer(request, "C", 4 * kMiB, 3, 5);
  return request;
}

std::map<std::string, std::string> ValuesOf(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.details_size(), 1);
  EXPECT_TRUE(details.details(0).UnpackTo(&info));
  return {info.metadata().begin(), info.metadata().end()};
}

class PlanServiceTest : public ServiceTest {
 protected:
  grpc::Status Try(const v1::PlanBuffersRequest& request, v1::PlanBuffersResponse& response) {
    return plans_->PlanBuffers(Call().get(), request, &response);
  }
  v1::PlanBuffersResponse Planned(const v1::PlanBuffersRequest& request) {
    v1::PlanBuffersResponse response;
    const grpc::Status status = Try(request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Refused(const v1::PlanBuffersRequest& request) {
    v1::PlanBuffersResponse response;
    return Try(request, response);
  }
};

TEST_F(PlanServiceTest, BuffersThatDoNotMeetShareBytes) {
  const v1::PlanBuffersResponse plan = Planned(ThreeBuffers());
  EXPECT_EQ(plan.height(), 10 * kMiB);
  EXPECT_EQ(plan.lower_bound(), 10 * kMiB);
  EXPECT_TRUE(plan.proven());
  ASSERT_EQ(plan.offsets_size(), 3);
  EXPECT_EQ(plan.offsets(0), plan.offsets(2));
  EXPECT_EQ(plan.planner_version(), kPlannerVersion);
  EXPECT_EQ(plan.plan_id().size(), 32U);

  const v1::PlanBuffersResponse longer = Planned(ThreeBuffers(/*end_of_a=*/5));
  EXPECT_EQ(longer.height(), 14 * kMiB);
  EXPECT_NE(longer.plan_id(), plan.plan_id());
}

TEST_F(PlanServiceTest, TheSameBuffersGetTheSamePlanFromTheCacheWhateverTheCapacity) {
  const v1::PlanBuffersResponse first = Planned(ThreeBuffers());
  EXPECT_FALSE(first.cached());
  v1::PlanBuffersRequest request = ThreeBuffers();
  request.set_capacity(10 * kMiB);
  v1::PlanBuffersResponse second = Planned(request);
  EXPECT_TRUE(second.cached());
  second.set_cached(false);
  EXPECT_EQ(second.SerializeAsString(), first.SerializeAsString());
}

TEST_F(PlanServiceTest, ACapacityThatNoPlanFitsIsRefusedWithTheProofAndWhatWouldHelp) {
  v1::PlanBuffersRequest request = ThreeBuffers(/*end_of_a=*/5);
  request.set_capacity(10 * kMiB);
  const grpc::Status status = Refused(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "PLAN_INFEASIBLE");
  EXPECT_THAT(status.error_message(), HasSubstr("14 MiB at step 3 by A, B, C"));
  EXPECT_EQ(ValuesOf(status),
            (std::map<std::string, std::string>{{"capacity", std::to_string(10 * kMiB)},
                                                {"height", std::to_string(14 * kMiB)},
                                                {"lower_bound", std::to_string(14 * kMiB)},
                                                {"step", "3"},
                                                {"needed", std::to_string(14 * kMiB)},
                                                {"alive", "A, B, C"},
                                                {"late_starts", "C at 4"},
                                                {"delay", "1"}}));
}

TEST_F(PlanServiceTest, EveryColumnIsHeeded) {
  v1::PlanBuffersRequest request;
  AddBuffer(request, "fixed", 10, 0, 20);
  AddBuffer(request, "gap", 100, 0, 20);
  AddBuffer(request, "in_gap", 100, 5, 10);
  AddBuffer(request, "view", 50, 15, 20);
  AddBuffer(request, "view_of_view", 60, 15, 20);
  AddBuffer(request, "unknown_end", 7, 0, int64_t{1} << 46);
  AddBuffer(request, "output", 30, 0, 1);
  AddBuffer(request, "after", 30, 19, 20);
  for (int i = 0; i < request.ids_size(); ++i) request.add_alignments(i == 2 ? 64 : 1);
  v1::BufferGap& gap = *request.add_gaps();
  gap.set_buffer(1);
  gap.set_begin(5);
  gap.set_end(10);
  v1::FixedBuffer& fixed = *request.add_fixed();
  fixed.set_buffer(0);
  fixed.set_offset(1000);
  for (const uint32_t buffer : {3U, 4U}) {
    v1::AliasedBuffer& alias = *request.add_aliases();
    alias.set_buffer(buffer);
    alias.set_group(9);
  }
  request.add_outputs(6);
  const v1::PlanBuffersResponse plan = Planned(request);
  EXPECT_EQ(plan.offsets(0), 1000U);
  EXPECT_EQ(plan.offsets(2) % 64, 0U);
  EXPECT_EQ(plan.offsets(3), plan.offsets(4));
  EXPECT_EQ(plan.height(), 1010U);
  const auto apart = [&](int a, int b) {
    return plan.offsets(a) + request.sizes(a) <= plan.offsets(b) ||
           plan.offsets(b) + request.sizes(b) <= plan.offsets(a);
  };
  EXPECT_TRUE(apart(6, 7));
  EXPECT_TRUE(apart(5, 7));
}

TEST_F(PlanServiceTest, BuffersThatMakeNoSenseAreRefusedByName) {
  v1::PlanBuffersRequest request = ThreeBuffers();
  request.set_sizes(1, 0);
  const grpc::Status status = Refused(request);
  EXPECT_EQ(ReasonOf(status), "INVALID_PLAN_INPUT");
  EXPECT_EQ(ValuesOf(status),
            (std::map<std::string, std::string>{{"buffer", "B"}, {"fault", "empty_size"}}));

  request = ThreeBuffers();
  request.set_ends(2, -1);
  EXPECT_EQ(ValuesOf(Refused(request))["fault"], "negative_step");
}

TEST_F(PlanServiceTest, ColumnsThatDoNotFitEachOtherAreRefused) {
  const auto field_of = [&](const v1::PlanBuffersRequest& request) {
    const grpc::Status status = Refused(request);
    EXPECT_EQ(ReasonOf(status), "INVALID_REQUEST");
    return ValuesOf(status)["field"];
  };
  v1::PlanBuffersRequest request = ThreeBuffers();
  request.add_sizes(1);
  EXPECT_EQ(field_of(request), "sizes");
  request = ThreeBuffers();
  request.add_alignments(1);
  EXPECT_EQ(field_of(request), "alignments");
  request = ThreeBuffers();
  request.mutable_first_uses()->RemoveLast();
  EXPECT_EQ(field_of(request), "first_uses");
  request = ThreeBuffers();
  request.add_ends(1);
  EXPECT_EQ(field_of(request), "ends");
  request = ThreeBuffers();
  request.add_outputs(3);
  EXPECT_EQ(field_of(request), "outputs");
  request = ThreeBuffers();
  request.add_gaps()->set_buffer(3);
  EXPECT_EQ(field_of(request), "gaps");
  request = ThreeBuffers();
  for (int i = 0; i < 2; ++i) request.add_fixed()->set_buffer(1);
  EXPECT_EQ(field_of(request), "fixed");
  request = ThreeBuffers();
  for (int i = 0; i < 2; ++i) request.add_aliases()->set_buffer(1);
  EXPECT_EQ(field_of(request), "aliases");
  request = ThreeBuffers();
  request.mutable_budget()->set_seconds(-1);
  EXPECT_EQ(field_of(request), "budget");
}

TEST_F(PlanServiceTest, NothingIsPlannedToNothing) {
  const v1::PlanBuffersResponse plan = Planned({});
  EXPECT_EQ(plan.offsets_size(), 0);
  EXPECT_EQ(plan.height(), 0U);
}

TEST_F(PlanServiceTest, MoreThanAHundredThousandBuffersOrGapsAreBeyondTheLimit) {
  v1::PlanBuffersRequest request;
  for (int i = 0; i <= 100'000; ++i) AddBuffer(request, std::to_string(i), 1, 0, 1);
  const grpc::Status status = Refused(request);
  EXPECT_EQ(ReasonOf(status), "LIMIT");
  EXPECT_EQ(ValuesOf(status)["limit"], "100000");
  request = ThreeBuffers();
  for (int i = 0; i <= 100'000; ++i) request.add_gaps();
  EXPECT_EQ(ReasonOf(Refused(request)), "LIMIT");
}

TEST_F(PlanServiceTest, OnlySessionsGetPlans) {
  v1::PlanBuffersResponse response;
  EXPECT_EQ(ReasonOf(plans_->PlanBuffers(Call("nobody").get(), ThreeBuffers(), &response)),
            "SESSION_UNKNOWN");
}

TEST_F(PlanServiceTest, CallsAreCountedByWhatCameOfThem) {
  const auto count = [&](const std::string& family, const std::string& label) {
    MetricFamilies families;
    planner_.AddTo(families);
    for (const prometheus::MetricFamily& each : families) {
      if (each.name != family) continue;
      for (const prometheus::ClientMetric& metric : each.metric) {
        if (!label.empty() && metric.label[0].value != label) continue;
        return metric.counter.value + metric.gauge.value +
               static_cast<double>(metric.histogram.sample_count);
      }
    }
    return -1.0;
  };
  for (const char* result : {"made", "cached", "refused"}) {
    EXPECT_EQ(count("tenure_plans_total", result), 0) << result;
  }
  EXPECT_EQ(count("tenure_plan_cache_bytes", ""), 0);
  EXPECT_EQ(count("tenure_plan_seconds", ""), 0);
  for (int i = 0; i < 3; ++i) Planned(ThreeBuffers());
  v1::PlanBuffersRequest request = ThreeBuffers();
  request.set_capacity(1);
  Refused(request);
  request.add_sizes(1);
  Refused(request);
  EXPECT_EQ(count("tenure_plans_total", "made"), 1);
  EXPECT_EQ(count("tenure_plans_total", "cached"), 2);
  EXPECT_EQ(count("tenure_plans_total", "refused"), 2);
  EXPECT_EQ(count("tenure_plan_seconds", ""), 1);
  EXPECT_GT(count("tenure_plan_cache_bytes", ""), 0);
}

}  // namespace
}  // namespace tenure
