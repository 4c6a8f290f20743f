#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "server/flight_recorder.h"
#include "tests/server/service_fixture.h"
#include "tests/support/manual_clock.h"

// What operators ask of events, peaks and leaks, and what is written down when a call is refused.

namespace tenure {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ReportsTest : public ServiceTest {
 protected:
  v1::ListEventsResponse Events(const v1::ListEventsRequest& request = {}) {
    v1::ListEventsResponse response;
    const grpc::Status status = admin_->ListEvents(Call().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  uint64_t AcquireBuffer(Bytes size) {
    v1::AcquireBuffersRequest request;
    request.add_buffers()->set_size(size.count());
    v1::AcquireBuffersResponse response;
    const grpc::Status status = leases_->AcquireBuffers(Call().get(), request, &response);
    return status.ok() ? response.buffers(0).buffer_id() : 0;
  }
};

TEST_F(ReportsTest, EventsComeWithLedgersAndNames) {
  v1::LoadModelRequest load = RequestFor("a", KiB(20), 1);
  load.set_acquire(true);
  Load(load);
  const v1::ListEventsResponse all = Events();
  ASSERT_EQ(all.events_size(), 3);
  EXPECT_EQ(all.last(), 3U);
  EXPECT_EQ(all.events(0).kind(), v1::EVENT_KIND_SESSION_OPENED);
  EXPECT_FALSE(all.events(0).has_ledger());
  const v1::Event& loaded = all.events(1);
  EXPECT_EQ(loaded.kind(), v1::EVENT_KIND_LOADED);
  EXPECT_EQ(loaded.subject(), "a@1");
  EXPECT_EQ(loaded.detail(), "FRESH");
  EXPECT_EQ(loaded.program(), "tester");
  EXPECT_EQ(loaded.ledger().arena(), "weights");
  EXPECT_EQ(loaded.ledger().leased(), KiB(20).count());
  EXPECT_GT(loaded.time().seconds(), 0);
  EXPECT_EQ(all.events(2).kind(), v1::EVENT_KIND_LEASE_GRANTED);
  EXPECT_EQ(all.events(2).ledger().leased(), KiB(20).count());

  v1::ListEventsRequest rest;
  rest.set_after(1);
  rest.set_limit(1);
  ASSERT_EQ(Events(rest).events_size(), 1);
  EXPECT_EQ(Events(rest).events(0).sequence(), 2U);
}

TEST_F(ReportsTest, WhoeverWaitsForAnEventGetsItWhenItHappens) {
  v1::ListEventsRequest next;
  next.set_after(Events().last());
  next.mutable_wait()->set_seconds(30);
  std::thread later([this] { Load(RequestFor("a", KiB(4), 1)); });
  const v1::ListEventsResponse came = Events(next);
  later.join();
  ASSERT_GE(came.events_size(), 1);
  EXPECT_EQ(came.events(0).subject(), "a@1");
  next.mutable_wait()->set_seconds(-1);
  v1::ListEventsResponse response;
  next.set_after(UINT64_MAX);
  EXPECT_EQ(ReasonOf(admin_->ListEvents(Call().get(), next, &response)), "INVALID_REQUEST");
}

TEST_F(ReportsTest, TheSummaryHasPeaksRequestsAndSegmentsBySize) {
  Load(RequestFor("a", KiB(20), 1));
  v1::LoadModelResponse refused;
  EXPECT_FALSE(models_->LoadModel(Call().get(), RequestFor("b", MiB(1), 2), &refused).ok());
  ASSERT_NE(AcquireBuffer(KiB(40)), 0U);
  v1::GetSummaryResponse summary;
  ASSERT_TRUE(admin_->GetSummary(Call().get(), {}, &summary).ok());
  ASSERT_EQ(summary.arenas_size(), 2);
  const v1::ArenaSummary& weights = summary.arenas(0);
  EXPECT_EQ(weights.ledger().arena(), "weights");
  EXPECT_EQ(weights.requests(), 2U);
  EXPECT_EQ(weights.failed(), 1U);
  EXPECT_EQ(weights.peak_allocated(), KiB(20).count());
  ASSERT_EQ(weights.segments_size(), 2);
  EXPECT_EQ(weights.segments(0).size(), KiB(4).count());
  EXPECT_EQ(weights.segments(1).size(), KiB(16).count());
  EXPECT_EQ(weights.segments(1).used(), 1U);
  const v1::ArenaSummary& runtime = summary.arenas(1);
  EXPECT_EQ(runtime.requests(), 1U);
  ASSERT_EQ(runtime.segments_size(), 1);
  EXPECT_EQ(runtime.segments(0).used(), 2U);
  EXPECT_EQ(runtime.peak_reserved(), KiB(64).count());
}

TEST_F(ReportsTest, NothingLeaksAtFirst) {
  ASSERT_NE(AcquireBuffer(KiB(40)), 0U);
  v1::ListLeaksResponse leaks;
  ASSERT_TRUE(admin_->ListLeaks(Call().get(), {}, &leaks).ok());
  EXPECT_THAT(leaks.leaks(), IsEmpty());
  EXPECT_THAT(leaks.stranded(), IsEmpty());
}

TEST_F(ReportsTest, WithoutAnIdTheLastRefusalIsExplained) {
  v1::ExplainRefusalResponse told;
  EXPECT_EQ(ReasonOf(admin_->ExplainRefusal(Call().get(), {}, &told)), "REFUSAL_NOT_FOUND");
  v1::LoadModelResponse refused;
  EXPECT_FALSE(models_->LoadModel(Call().get(), RequestFor("a", MiB(1), 1), &refused).ok());
  EXPECT_FALSE(models_->LoadModel(Call().get(), RequestFor("b", MiB(2), 2), &refused).ok());
  ASSERT_TRUE(admin_->ExplainRefusal(Call().get(), {}, &told).ok());
  EXPECT_EQ(told.refusal().refusal_id(), 2U);
}

class FlightRecorderTest : public ReportsTest {
 protected:
  std::vector<std::string> Files() const {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(directory_ / "flight", error)) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void Refuse() {
    v1::LoadModelResponse refused;
    EXPECT_FALSE(models_->LoadModel(Call().get(), RequestFor("b", MiB(1), 2), &refused).ok());
  }
};

TEST_F(FlightRecorderTest, WritesEventsAndMapOfARefusalOnceAMinuteAndKeepsTheLast) {
  ManualClock clock;
  FlightRecorder recorder({.directory = directory_ / "flight", .kept = 2}, *store_, sessions_,
                          refusals_, *maps_, clock);
  Load(RequestFor("a", KiB(20), 1));
  for (int i = 0; i < 3; ++i) Refuse();
  recorder.OnRefusal(RefusalId(1));
  recorder.OnRefusal(RefusalId(2));  // within the minute
  ASSERT_TRUE(Comes([this] { return Files() == std::vector<std::string>{"refusal-1.json"}; }));
  std::ifstream file(directory_ / "flight/refusal-1.json");
  const auto record = nlohmann::json::parse(file);
  EXPECT_EQ(record["schema"], 1);
  EXPECT_EQ(record["refusal"]["reason"], "CAPACITY");
  EXPECT_EQ(record["map"]["devices"][0]["arenas"][0]["regions"][0]["model"], "a");
  EXPECT_EQ(record["events"][1]["kind"], "EVENT_KIND_LOADED");
  EXPECT_EQ(record["events"].back()["kind"], "EVENT_KIND_LOAD_FAILED");

  for (uint64_t id = 2; id <= 3; ++id) {
    clock.Advance(minutes(1));
    recorder.OnRefusal(RefusalId(id));
    const std::string name = "refusal-" + std::to_string(id) + ".json";
    ASSERT_TRUE(Comes([&] { return !Files().empty() && Files().back() == name; }));
  }
  EXPECT_THAT(Files(), ElementsAre("refusal-2.json", "refusal-3.json"));
}

TEST_F(FlightRecorderTest, AFolderThatCannotBeMadeHurtsNobody) {
  std::ofstream(directory_ / "flight") << "in the way";
  {
    FlightRecorder recorder({.directory = directory_ / "flight"}, *store_, sessions_, refusals_,
                            *maps_, clock_);
    Refuse();
    recorder.OnRefusal(RefusalId(1));
  }
  EXPECT_THAT(Files(), IsEmpty());
}

}  // namespace
}  // namespace tenure
