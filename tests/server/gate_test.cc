#include "server/gate.h"

#include <gtest/gtest.h>
#include <string>

#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class GateTest : public ServiceTest {
 protected:
  grpc::Status ListModels(grpc::ClientContext& context) {
    v1::ListModelsResponse response;
    return models_->ListModels(&context, {}, &response);
  }
  static std::string BootIdOf(const grpc::ClientContext& context) {
    const auto& metadata = context.GetServerInitialMetadata();
    const auto entry = metadata.find(kBootIdKey);
    return entry == metadata.end() ? "" : std::string(entry->second.data(), entry->second.size());
  }
};

TEST_F(GateTest, ACallOfASessionIsTakenAndAnsweredWithTheBootId) {
  const auto context = Call();
  EXPECT_EQ(ReasonOf(ListModels(*context)), "OK");
  EXPECT_EQ(BootIdOf(*context), kBootId);
}

TEST_F(GateTest, StatusNeedsNoSession) {
  grpc::ClientContext context;
  v1::GetStatusResponse response;
  EXPECT_EQ(ReasonOf(admin_->GetStatus(&context, {}, &response)), "OK");
  EXPECT_EQ(BootIdOf(context), kBootId);
}

TEST_F(GateTest, ACallWithoutAValidTokenIsRefused) {
  grpc::ClientContext bare;
  EXPECT_EQ(ReasonOf(ListModels(bare)), "SESSION_UNKNOWN");
  EXPECT_EQ(BootIdOf(bare), kBootId);
  EXPECT_EQ(ReasonOf(ListModels(*Call("00112233445566778899aabbccddeeff"))), "SESSION_UNKNOWN");
  EXPECT_EQ(ReasonOf(ListModels(*Call(""))), "SESSION_UNKNOWN");

  grpc::ClientContext without_boot_id;
  without_boot_id.AddMetadata(kSessionTokenKey, token_);
  EXPECT_EQ(ReasonOf(ListModels(without_boot_id)), "SESSION_UNKNOWN");

  const auto twice = Call();
  twice->AddMetadata(kSessionTokenKey, token_);
  EXPECT_EQ(ReasonOf(ListModels(*twice)), "SESSION_UNKNOWN");
}

TEST_F(GateTest, ATokenOfAnEndedSessionIsWorthNothing) {
  sessions_.Leave(*sessions_.Authenticate(token_), SessionState::kDeaf);
  EXPECT_EQ(ReasonOf(ListModels(*Call())), "SESSION_UNKNOWN");
}

TEST_F(GateTest, ACallToAnotherBootIsTold) {
  grpc::ClientContext context;
  context.AddMetadata(kBootIdKey, "ffffffffffffffffffffffffffffffff");
  context.AddMetadata(kSessionTokenKey, token_);
  EXPECT_EQ(ReasonOf(ListModels(context)), "STALE_INCARNATION");
  EXPECT_EQ(BootIdOf(context), kBootId);
}

TEST_F(GateTest, EveryOtherCallNeedsASession) {
  const auto refused = [](auto call, auto request, auto response) {
    grpc::ClientContext context;
    EXPECT_EQ(ReasonOf(call(&context, request, &response)), "SESSION_UNKNOWN")
        << request.GetTypeName();
  };
  refused(
      [&](grpc::ClientContext* c, const auto& q, auto* r) { return models_->LoadModel(c, q, r); },
      v1::LoadModelRequest(), v1::LoadModelResponse());
  refused(
      [&](grpc::ClientContext* c, const auto& q, auto* r) { return models_->UnloadModel(c, q, r); },
      v1::UnloadModelRequest(), v1::UnloadModelResponse());
  refused(
      [&](grpc::ClientContext* c, const auto& q, auto* r) { return models_->GetModel(c, q, r); },
      v1::GetModelRequest(), v1::Model());
  refused(
      [&](grpc::ClientContext* c, const auto& q, auto* r) { return models_->ListTensors(c, q, r); },
      v1::ListTensorsRequest(), v1::ListTensorsResponse());
  refused([&](grpc::ClientContext* c, const auto& q,
              auto*) { return models_->WatchModel(c, q)->Finish(); },
          v1::WatchModelRequest(), v1::WatchModelResponse());
  refused([&](grpc::ClientContext* c, const auto& q,
              auto* r) { return leases_->AcquireWeights(c, q, r); },
          v1::AcquireWeightsRequest(), v1::AcquireWeightsResponse());
  refused(
      [&](grpc::ClientContext* c, const auto& q, auto* r) { return leases_->RenewLeases(c, q, r); },
      v1::RenewLeasesRequest(), v1::RenewLeasesResponse());
  refused([&](grpc::ClientContext* c, const auto& q,
              auto* r) { return leases_->ReleaseLease(c, q, r); },
          v1::ReleaseLeaseRequest(), v1::ReleaseLeaseResponse());
  refused(
      [&](grpc::ClientContext* c, const auto& q, auto* r) { return admin_->ListSessions(c, q, r); },
      v1::ListSessionsRequest(), v1::ListSessionsResponse());
}

}  // namespace
}  // namespace tenure
