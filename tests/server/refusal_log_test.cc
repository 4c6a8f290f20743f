#include "server/refusal_log.h"

#include <gtest/gtest.h>
#include <set>
#include <thread>
#include <vector>

#include "server/errors.h"
#include "tests/server/service_fixture.h"
#include "tests/support/manual_clock.h"

namespace tenure {
namespace {

class RefusalLogTest : public ::testing::Test {
 protected:
  static std::string IdOf(const Status& status) {
    for (const auto& [name, value] : DetailOf(status).value_or(ErrorDetail{}).values) {
      if (name == kRefusalIdValue) return value;
    }
    return "";
  }
  Status Refuse(const std::string& message = "no room") {
    return log_.Note("LoadModel", SessionId(7),
                     Error(Reason::kCapacity, message, {{"free_bytes", "17"}}));
  }

  ManualClock clock_;
  SessionRegistry sessions_{clock_, 10};
  RefusalLog log_{sessions_, clock_};
};

TEST_F(RefusalLogTest, OnlyWantOfRoomIsNotedAndEverythingElseIsReturnedAsItIs) {
  EXPECT_TRUE(log_.Note("LoadModel", SessionId(7), absl::OkStatus()).ok());
  for (const Reason reason : kAllReasons) {
    const Status status = Error(reason, "because", {{"free_bytes", "17"}});
    const Status noted = log_.Note("LoadModel", SessionId(7), status);
    EXPECT_EQ(noted.code(), status.code());
    EXPECT_EQ(noted.message(), status.message());
    EXPECT_EQ(IdOf(noted).empty(), status.code() != absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(DetailOf(noted)->reason, ReasonName(reason));
  }
  EXPECT_EQ(IdOf(Refuse()), "9");  // after the eight reasons of that code
}

TEST_F(RefusalLogTest, ARefusalIsFoundByItsIdAsLongAsItIsAmongTheLastThousand) {
  EXPECT_EQ(IdOf(Refuse("the first")), "1");
  clock_.Advance(std::chrono::seconds(5));
  StatusOr<Refusal> first = log_.Find(RefusalId(1));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->message, "the first");
  EXPECT_EQ(first->reason, "CAPACITY");
  EXPECT_EQ(first->values, (ErrorValues{{"free_bytes", "17"}}));
  EXPECT_EQ(clock_.Now() - first->at, std::chrono::seconds(5));
  for (int i = 2; i <= 1000; ++i) (void)Refuse("number " + std::to_string(i));
  EXPECT_TRUE(log_.Find(RefusalId(1)).ok());
  EXPECT_EQ(log_.Find(RefusalId(1000))->message, "number 1000");
  (void)Refuse();
  const Status dropped = log_.Find(RefusalId(1)).status();
  EXPECT_TRUE(HasReason(dropped, Reason::kRefusalNotFound)) << dropped;
  EXPECT_EQ(dropped.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(dropped.message().find("the last 1000"), std::string::npos) << dropped;
  EXPECT_EQ(log_.Find(RefusalId(2))->message, "number 2");
  EXPECT_EQ(log_.Find(RefusalId())->id, RefusalId(1001));
  for (const uint64_t unknown : {uint64_t{1002}, UINT64_MAX}) {
    EXPECT_TRUE(HasReason(log_.Find(RefusalId(unknown)).status(), Reason::kRefusalNotFound));
  }
}

TEST_F(RefusalLogTest, WhatIsKeptOfALongRefusalIsBounded) {
  const std::string endless(100'000, 'x');
  (void)log_.Note("LoadModel", SessionId(7),
                  Error(Reason::kCapacity, endless, {{"holders", endless}}));
  const Refusal kept = *log_.Find(RefusalId(1));
  EXPECT_EQ(kept.message.size(), 4096U);
  EXPECT_EQ(kept.values.front().second.size(), 4096U);
  const PoolRequest many{.session = SessionId(7), .wanted = std::vector<BufferSpec>(1000)};
  (void)log_.Note("AcquireBuffers", SessionId(7), Error(Reason::kCapacity, "no"), &many);
  EXPECT_FALSE(log_.Find(RefusalId(2))->asked.has_value());
}

TEST_F(RefusalLogTest, IdsAreUniqueWhoeverNotesAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int k = 0; k < 200; ++k) {
        const Status noted = Refuse();
        EXPECT_TRUE(log_.Find(RefusalId(std::stoull(IdOf(noted)))).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(IdOf(Refuse()), "801");
}

// Over gRPC: a weights arena of 512 KiB, and a runtime arena of 256 KiB in segments of 32 KiB.
class RefusalServiceTest : public ServiceTest {
 protected:
  static std::map<std::string, std::string> ValuesOf(const grpc::Status& status) {
    google::rpc::Status details;
    google::rpc::ErrorInfo info;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    EXPECT_TRUE(details.details_size() == 1 && details.details(0).UnpackTo(&info));
    return {info.metadata().begin(), info.metadata().end()};
  }
  // The id that a refusal carries, in its values and at its end.
  static uint64_t IdOf(const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    const std::string id = ValuesOf(status)["refusal_id"];
    EXPECT_TRUE(status.error_message().ends_with("; refusal " + id)) << status.error_message();
    return id.empty() ? 0 : std::stoull(id);
  }
  v1::ExplainRefusalResponse Explain(uint64_t id) {
    v1::ExplainRefusalRequest request;
    request.set_refusal_id(id);
    v1::ExplainRefusalResponse response;
    const grpc::Status status = admin_->ExplainRefusal(Call().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  grpc::Status Acquire(const std::string& token, Bytes size) {
    v1::AcquireBuffersRequest request;
    request.add_buffers()->set_size(size.count());
    v1::AcquireBuffersResponse response;
    return leases_->AcquireBuffers(Call(token).get(), request, &response);
  }
  grpc::Status Fit(const v1::FitRequest& request, v1::FitResponse& response) {
    return admin_->Fit(Call().get(), request, &response);
  }
  v1::DeviceFit FitOf(const v1::FitRequest& request) {
    v1::FitResponse response;
    const grpc::Status status = Fit(request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.devices_size() == 1 ? response.devices(0) : v1::DeviceFit();
  }
};

TEST_F(RefusalServiceTest, ARefusedLoadIsExplainedWithWhoAskedAndWhatHasChanged) {
  v1::LoadModelRequest held = RequestFor("held", KiB(300), 1);
  held.set_acquire(true);
  const v1::LoadModelResponse loaded = Load(held);
  v1::LoadModelResponse response;
  const grpc::Status refused =
      models_->LoadModel(Call().get(), RequestFor("big", KiB(400), 1), &response);
  const v1::ExplainRefusalResponse told = Explain(IdOf(refused));
  EXPECT_EQ(told.refusal().method(), "LoadModel");
  EXPECT_EQ(told.refusal().program(), "tester");
  EXPECT_EQ(told.refusal().instance(), "0");
  EXPECT_EQ(told.refusal().session_id(), 1U);
  EXPECT_EQ(told.refusal().reason(), "HELD_BY_LEASES");
  EXPECT_EQ(told.refusal().values().at("needed_bytes"), std::to_string(KiB(400).count()));
  EXPECT_TRUE(refused.error_message().starts_with(told.refusal().message()));
  EXPECT_TRUE(told.refusal().has_age());
  EXPECT_EQ(told.now().verdict(), v1::FIT_VERDICT_WHEN_RELEASED);
  Unload("held");
  v1::ReleaseLeaseRequest release;
  release.set_lease_id(loaded.lease().lease_id());
  v1::ReleaseLeaseResponse released;
  ASSERT_TRUE(leases_->ReleaseLease(Call().get(), release, &released).ok());
  EXPECT_EQ(Explain(IdOf(refused)).now().verdict(), v1::FIT_VERDICT_AFTER_RECLAIM);
}

TEST_F(RefusalServiceTest, ARefusalOfRuntimeMemoryIsExplainedTheSameWay) {
  const std::string other = OpenSession();
  ASSERT_TRUE(Acquire(other, KiB(200)).ok());
  const uint64_t id = IdOf(Acquire(token_, KiB(100)));
  EXPECT_EQ(Explain(id).refusal().method(), "AcquireBuffers");
  EXPECT_EQ(Explain(id).refusal().reason(), "HELD_BY_LEASES");
  EXPECT_EQ(Explain(id).now().verdict(), v1::FIT_VERDICT_WHEN_RELEASED);
  store_->EndSession(SessionId(2));
  EXPECT_EQ(Explain(id).now().verdict(), v1::FIT_VERDICT_NOW);

  v1::GrowPoolRequest grow;
  grow.set_bytes(KiB(512).count());
  v1::GrowPoolResponse grown;
  const uint64_t next = IdOf(leases_->GrowPool(Call().get(), grow, &grown));
  EXPECT_EQ(next, id + 1);
  EXPECT_EQ(Explain(next).refusal().method(), "GrowPool");
  EXPECT_EQ(Explain(next).now().verdict(), v1::FIT_VERDICT_NEVER);
}

TEST_F(RefusalServiceTest, LeasesBeyondTheLimitAreRefusalsToo) {
  Load(RequestFor("a", KiB(4), 1));
  v1::AcquireWeightsRequest request;
  request.set_name("a");
  grpc::Status status;
  for (int i = 0; i < 100'000 && status.ok(); ++i) {
    v1::AcquireWeightsResponse response;
    status = leases_->AcquireWeights(Call().get(), request, &response);
  }
  ASSERT_EQ(ReasonOf(status), "LIMIT");
  const v1::ExplainRefusalResponse told = Explain(IdOf(status));
  EXPECT_EQ(told.refusal().method(), "AcquireWeights");
  EXPECT_FALSE(told.has_now());
}

TEST_F(RefusalServiceTest, AnUnknownRefusalIsNotFoundAndNothingIsToldWithoutASession) {
  v1::ExplainRefusalRequest request;
  request.set_refusal_id(1);
  v1::ExplainRefusalResponse response;
  const grpc::Status unknown = admin_->ExplainRefusal(Call().get(), request, &response);
  EXPECT_EQ(ReasonOf(unknown), "REFUSAL_NOT_FOUND");
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  grpc::ClientContext stranger;
  EXPECT_EQ(ReasonOf(admin_->ExplainRefusal(&stranger, request, &response)), "SESSION_UNKNOWN");
  grpc::ClientContext another;
  v1::FitResponse fits;
  EXPECT_EQ(ReasonOf(admin_->Fit(&another, {}, &fits)), "SESSION_UNKNOWN");
}

TEST_F(RefusalServiceTest, FitTellsOfAModelWhatALoadOfItComesTo) {
  v1::FitRequest request;
  request.set_path(RequestFor("a", KiB(300) + Bytes(1), 1).path());
  v1::DeviceFit fit = FitOf(request);
  EXPECT_EQ(fit.device(), "host:0");
  EXPECT_EQ(fit.verdict(), v1::FIT_VERDICT_NOW);
  EXPECT_EQ(fit.needed_bytes(), KiB(304).count());
  EXPECT_EQ(fit.capacity_bytes(), KiB(512).count());
  EXPECT_EQ(fit.largest_now_bytes(), KiB(512).count());
  Load(RequestFor("a", KiB(300) + Bytes(1), 1));
  request.set_path(RequestFor("b", KiB(300), 1).path());
  EXPECT_EQ(FitOf(request).verdict(), v1::FIT_VERDICT_WHEN_RELEASED);
  EXPECT_EQ(FitOf(request).free_bytes(), KiB(208).count());
  Unload("a");
  fit = FitOf(request);
  EXPECT_EQ(fit.verdict(), v1::FIT_VERDICT_AFTER_RECLAIM);
  EXPECT_NE(fit.explanation().find("a@1"), std::string::npos) << fit.explanation();
  EXPECT_EQ(fit.largest_bytes(), KiB(512).count());
  request.set_path(RequestFor("c", KiB(600), 1).path());
  EXPECT_EQ(FitOf(request).verdict(), v1::FIT_VERDICT_NEVER);
}

TEST_F(RefusalServiceTest, FitTellsOfABufferWhatAnAcquireOfItComesTo) {
  v1::FitRequest request;
  request.mutable_buffer()->set_size(1000);
  EXPECT_EQ(FitOf(request).verdict(), v1::FIT_VERDICT_NOW);
  EXPECT_EQ(FitOf(request).needed_bytes(), 1024U);
  EXPECT_EQ(store_->runtimes()[0]->TakeSnapshot().pools, 0U);
  request.mutable_buffer()->set_size(KiB(257).count());
  EXPECT_EQ(FitOf(request).verdict(), v1::FIT_VERDICT_NEVER);
}

TEST_F(RefusalServiceTest, WhatMakesNoSenseDoesNotFitAnywhere) {
  v1::FitResponse response;
  v1::FitRequest request;
  EXPECT_EQ(ReasonOf(Fit(request, response)), "INVALID_REQUEST");
  request.mutable_buffer();
  EXPECT_EQ(ReasonOf(Fit(request, response)), "INVALID_REQUEST");
  request.mutable_buffer()->set_size(1);
  request.mutable_buffer()->set_alignment(3);
  EXPECT_EQ(ReasonOf(Fit(request, response)), "INVALID_REQUEST");
  request.mutable_buffer()->set_alignment(0);
  request.mutable_buffer()->set_kind(static_cast<v1::BufferKind>(9));
  EXPECT_EQ(ReasonOf(Fit(request, response)), "INVALID_REQUEST");
  request.mutable_buffer()->set_kind(v1::BUFFER_KIND_IO);
  request.set_device("gpu:7");
  EXPECT_EQ(ReasonOf(Fit(request, response)), "DEVICE_NOT_FOUND");
  request.clear_device();
  request.set_path("models/none.safetensors");
  EXPECT_EQ(ReasonOf(Fit(request, response)), "FILE_NOT_FOUND");
  request.set_path("/etc/passwd");
  EXPECT_EQ(ReasonOf(Fit(request, response)), "PATH_OUTSIDE_ROOTS");
}

}  // namespace
}  // namespace tenure
