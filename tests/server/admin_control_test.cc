#include <future>
#include <gmock/gmock.h>
#include <unistd.h>

#include "tests/server/service_fixture.h"

// What operators do, through the service.

namespace tenure {
namespace {

using testing::HasSubstr;

class AdminControlTest : public ServiceTest {
 protected:
  template <typename Request, typename Response>
  grpc::Status Call(grpc::Status (v1::AdminService::Stub::*method)(grpc::ClientContext*,
                                                                   const Request&, Response*),
                    const Request& request, Response& response, const std::string& token) {
    return ((*admin_).*method)(ServiceTest::Call(token).get(), request, &response);
  }
  grpc::Status Cordon(const std::string& device) {
    v1::CordonRequest request;
    request.set_device(device);
    v1::CordonResponse response;
    const grpc::Status status = Call(&v1::AdminService::Stub::Cordon, request, response, token_);
    changed_ = response.changed();
    return status;
  }
  grpc::Status Uncordon(const std::string& device) {
    v1::UncordonRequest request;
    request.set_device(device);
    v1::UncordonResponse response;
    const grpc::Status status = Call(&v1::AdminService::Stub::Uncordon, request, response, token_);
    changed_ = response.changed();
    return status;
  }
  grpc::Status Drain(const std::string& device, int timeout_ms, v1::DrainResponse& response) {
    v1::DrainRequest request;
    request.set_device(device);
    request.mutable_timeout()->set_nanos(timeout_ms % 1000 * 1'000'000);
    request.mutable_timeout()->set_seconds(timeout_ms / 1000);
    return Call(&v1::AdminService::Stub::Drain, request, response, token_);
  }
  // What each of the operators' calls answers to a process of that identity.
  std::vector<std::string> ReasonsFor(const SessionIdentity& identity) {
    const std::string token = OpenSession(identity);
    std::vector<std::string> reasons;
    v1::CordonRequest cordon;
    cordon.set_device("host:0");
    v1::CordonResponse cordoned;
    reasons.push_back(ReasonOf(Call(&v1::AdminService::Stub::Cordon, cordon, cordoned, token)));
    v1::UncordonRequest uncordon;
    uncordon.set_device("host:0");
    v1::UncordonResponse uncordoned;
    reasons.push_back(
        ReasonOf(Call(&v1::AdminService::Stub::Uncordon, uncordon, uncordoned, token)));
    v1::DrainResponse drained;
    v1::DrainRequest drain;
    drain.mutable_timeout();
    reasons.push_back(ReasonOf(Call(&v1::AdminService::Stub::Drain, drain, drained, token)));
    v1::TrimResponse trimmed;
    reasons.push_back(
        ReasonOf(Call(&v1::AdminService::Stub::Trim, v1::TrimRequest(), trimmed, token)));
    v1::ReloadResponse reloaded;
    reasons.push_back(
        ReasonOf(Call(&v1::AdminService::Stub::Reload, v1::ReloadRequest(), reloaded, token)));
    return reasons;
  }

  bool changed_ = false;
};

const std::vector<std::string> kGranted(5, "OK");
const std::vector<std::string> kDenied(5, "PERMISSION_DENIED");
constexpr uid_t kStranger = 4711;

// Field case 40.
TEST_F(AdminControlTest, OnlyOperatorsMayOperate) {
  SessionIdentity who{.program = "p", .instance = "0", .uid = kStranger, .gid = kStranger};
  EXPECT_EQ(ReasonsFor(who), kDenied);
  EXPECT_FALSE(store_->runtimes()[0]->cordoned());
  who.uid = geteuid();
  EXPECT_EQ(ReasonsFor(who), kGranted);
  who.uid = 0;
  EXPECT_EQ(ReasonsFor(who), kGranted);

  who.uid = kStranger;
  gate_->SetAdmin({.uids = {1, kStranger}, .gids = {}});
  EXPECT_EQ(ReasonsFor(who), kGranted);
  gate_->SetAdmin({.uids = {}, .gids = {kStranger}});
  EXPECT_EQ(ReasonsFor(who), kGranted);
  gate_->SetAdmin({.uids = {}, .gids = {99}});
  EXPECT_EQ(ReasonsFor(who), kDenied);
  who.groups = {5, 99};
  EXPECT_EQ(ReasonsFor(who), kGranted);
}

// Field case 40.
TEST_F(AdminControlTest, UnloadingNeedsTheRightIfThatIsConfigured) {
  Load(RequestFor("a", KiB(4), 1));
  const std::string token = OpenSession(
      {.program = "p", .instance = "0", .uid = kStranger, .gid = kStranger, .groups = {}});
  v1::UnloadModelRequest request;
  request.set_name("a");
  v1::UnloadModelResponse response;
  gate_->SetAdmin({.uids = {}, .gids = {}, .unload = true});
  EXPECT_EQ(ReasonOf(models_->UnloadModel(ServiceTest::Call(token).get(), request, &response)),
            "PERMISSION_DENIED");
  gate_->SetAdmin({});
  EXPECT_EQ(ReasonOf(models_->UnloadModel(ServiceTest::Call(token).get(), request, &response)),
            "OK");
}

// Field case 55.
TEST_F(AdminControlTest, ACordonedDeviceShowsAndIsRefusedWithAReasonThatCanBeExplained) {
  EXPECT_EQ(ReasonOf(Cordon("host:1")), "DEVICE_NOT_FOUND");
  EXPECT_EQ(ReasonOf(Cordon("")), "INVALID_REQUEST");
  EXPECT_EQ(ReasonOf(Cordon("host:0")), "OK");
  EXPECT_TRUE(changed_);
  EXPECT_EQ(ReasonOf(Cordon("host:0")), "OK");
  EXPECT_FALSE(changed_);

  v1::GetStatusResponse status;
  grpc::ClientContext context;
  ASSERT_TRUE(admin_->GetStatus(&context, {}, &status).ok());
  EXPECT_TRUE(status.devices(0).cordoned());

  v1::LoadModelResponse loaded;
  const grpc::Status refused =
      models_->LoadModel(ServiceTest::Call().get(), RequestFor("a", KiB(4), 1), &loaded);
  EXPECT_EQ(ReasonOf(refused), "CORDONED");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  v1::ExplainRefusalRequest explain;
  explain.set_refusal_id(1);
  v1::ExplainRefusalResponse explained;
  ASSERT_EQ(ReasonOf(admin_->ExplainRefusal(ServiceTest::Call().get(), explain, &explained)), "OK");
  EXPECT_EQ(explained.refusal().reason(), "CORDONED");
  EXPECT_EQ(explained.now().verdict(), v1::FIT_VERDICT_CORDONED);

  EXPECT_EQ(ReasonOf(Uncordon("host:0")), "OK");
  EXPECT_TRUE(changed_);
  Load(RequestFor("a", KiB(4), 1));
  v1::ExplainRefusalResponse now;
  ASSERT_EQ(ReasonOf(admin_->ExplainRefusal(ServiceTest::Call().get(), explain, &now)), "OK");
  EXPECT_EQ(now.now().verdict(), v1::FIT_VERDICT_NOW);
}

TEST_F(AdminControlTest, DrainingAnEmptyDeviceEndsAtOnceAndLeavesItCordoned) {
  Load(RequestFor("a", KiB(4), 1));
  v1::DrainResponse response;
  ASSERT_EQ(ReasonOf(Drain("", 60'000, response)), "OK");
  ASSERT_EQ(response.devices_size(), 1);
  EXPECT_EQ(response.devices(0).device(), "host:0");
  EXPECT_TRUE(response.devices(0).drained());
  EXPECT_TRUE(store_->runtimes()[0]->cordoned());
  EXPECT_EQ(store_->GetModel("a", {}, "")->state, RegionState::kRetained);
  EXPECT_EQ(ReasonOf(Drain("gpu:7", 0, response)), "DEVICE_NOT_FOUND");
}

TEST_F(AdminControlTest, ADrainThatIsNotOverInTimeNamesWhoHoldsWhat) {
  v1::LoadModelRequest request = RequestFor("a", KiB(4), 1);
  request.set_acquire(true);
  Load(request);
  v1::AcquireBuffersRequest buffers;
  buffers.add_buffers()->set_size(KiB(40).count());
  v1::AcquireBuffersResponse granted;
  ASSERT_TRUE(leases_->AcquireBuffers(ServiceTest::Call().get(), buffers, &granted).ok());

  v1::DrainResponse response;
  ASSERT_EQ(ReasonOf(Drain("host:0", 30, response)), "OK");
  const v1::DeviceDrain& device = response.devices(0);
  EXPECT_FALSE(device.drained());
  ASSERT_EQ(device.holders_size(), 2);
  EXPECT_EQ(device.holders(0).arena(), "weights");
  EXPECT_EQ(device.holders(0).program(), "tester");
  EXPECT_EQ(device.holders(0).model(), "a@1");
  EXPECT_EQ(device.holders(0).lease_count(), 1u);
  EXPECT_EQ(device.holders(0).bytes(), KiB(4).count());
  EXPECT_EQ(device.holders(1).arena(), "runtime");
  EXPECT_EQ(device.holders(1).bytes(), KiB(40).count());
  EXPECT_EQ(LiveLeases(), 1u);  // asked, never ended
  const MutexLock lock(mutex_);
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].second, "host:0");
}

TEST_F(AdminControlTest, ADrainEndsWhenTheLastHolderLetsGo) {
  v1::LoadModelRequest request = RequestFor("a", KiB(4), 1);
  request.set_acquire(true);
  const v1::LoadModelResponse loaded = Load(request);
  v1::DrainResponse response;
  auto draining = std::async(std::launch::async, [&] { return Drain("", 60'000, response); });
  ASSERT_TRUE(Comes([this] {
    const MutexLock lock(mutex_);
    return !asked_.empty();
  }));
  v1::ReleaseLeaseRequest release;
  release.set_lease_id(loaded.lease().lease_id());
  v1::ReleaseLeaseResponse released;
  ASSERT_TRUE(leases_->ReleaseLease(ServiceTest::Call().get(), release, &released).ok());
  ASSERT_EQ(ReasonOf(draining.get()), "OK");
  EXPECT_TRUE(response.devices(0).drained());
  EXPECT_EQ(response.devices(0).holders_size(), 0);
}

TEST_F(AdminControlTest, ALoadUnderWayWhenTheDrainBeginsIsTakenOfflineAsWell) {
  const v1::LoadModelRequest request = RequestFor("slow", KiB(40), 1);
  files_.Hold("slow.safetensors");
  auto loading = std::async(std::launch::async, [&] {
    v1::LoadModelResponse loaded;
    return models_->LoadModel(ServiceTest::Call().get(), request, &loaded);
  });
  files_.AwaitHeldRead();
  v1::DrainResponse response;
  ASSERT_EQ(ReasonOf(Drain("", 30, response)), "OK");
  EXPECT_FALSE(response.devices(0).drained());
  EXPECT_EQ(response.devices(0).running_loads(), 1u);
  auto draining = std::async(std::launch::async, [&] { return Drain("", 60'000, response); });
  files_.Release();
  EXPECT_TRUE(loading.get().ok());
  ASSERT_EQ(ReasonOf(draining.get()), "OK");
  EXPECT_TRUE(response.devices(0).drained());
}

TEST_F(AdminControlTest, TrimSaysWhatEachArenaGaveBack) {
  Load(RequestFor("a", KiB(40), 1));
  Unload("a");
  v1::TrimRequest request;
  v1::TrimResponse response;
  ASSERT_EQ(ReasonOf(Call(&v1::AdminService::Stub::Trim, request, response, token_)), "OK");
  EXPECT_EQ(response.devices(0).weights_bytes(), 0u);
  request.set_retained(true);
  request.set_device("host:0");
  ASSERT_EQ(ReasonOf(Call(&v1::AdminService::Stub::Trim, request, response, token_)), "OK");
  EXPECT_EQ(response.devices(0).device(), "host:0");
  EXPECT_EQ(response.devices(0).weights_bytes(), KiB(40).count());
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().ledger.reserved, Bytes(0));
  request.set_device("gpu:7");
  EXPECT_EQ(ReasonOf(Call(&v1::AdminService::Stub::Trim, request, response, token_)),
            "DEVICE_NOT_FOUND");
}

TEST_F(AdminControlTest, ReloadSaysWhatChangedOrWhyNothingDid) {
  reread_ = std::vector<ConfigChange>{{"weights.retain_ttl", "10m", "5m"}};
  v1::ReloadResponse response;
  ASSERT_EQ(ReasonOf(Call(&v1::AdminService::Stub::Reload, {}, response, token_)), "OK");
  ASSERT_EQ(response.changes_size(), 1);
  EXPECT_EQ(response.changes(0).key(), "weights.retain_ttl");
  EXPECT_EQ(response.changes(0).before(), "10m");
  EXPECT_EQ(response.changes(0).after(), "5m");

  reread_ = Error(Reason::kRestartNeeded, "f.yaml:2: one\nf.yaml:3: two");
  const grpc::Status refused = Call(&v1::AdminService::Stub::Reload, {}, response, token_);
  EXPECT_EQ(ReasonOf(refused), "RESTART_NEEDED");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(refused.error_message(), HasSubstr("f.yaml:3: two"));
}

}  // namespace
}  // namespace tenure
