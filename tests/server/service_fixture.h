#pragma once

#include <chrono>
#include <functional>
#include <google/rpc/error_details.pb.h>
#include <google/rpc/status.pb.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>
#include <tenure/v1/admin.grpc.pb.h>
#include <tenure/v1/lease.grpc.pb.h>
#include <tenure/v1/model.grpc.pb.h>
#include <tenure/v1/plan.grpc.pb.h>
#include <thread>
#include <utility>
#include <vector>

#include "core/store/store.h"
#include "server/admin_service.h"
#include "server/control.h"
#include "server/gate.h"
#include "server/lease_service.h"
#include "server/memory_map.h"
#include "server/model_service.h"
#include "server/plan_service.h"
#include "server/planner.h"
#include "server/refusal_log.h"
#include "server/rpc_metrics.h"
#include "server/session_registry.h"
#include "server/wanted_models.h"
#include "tests/support/gated_files.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/small_device.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// Events that nobody hears.
class NoEvents final : public SessionEvents {
 public:
  void OnRecall(SessionId, ShareSerial, RegionId, Duration) override {}
  void OnLeaseLost(SessionId, LeaseId, RegionId, Reason) override {}
  void OnPoolRecall(SessionId, PoolId, std::span<const ShareSerial>, Duration) override {}
  void OnMemoryWanted(SessionId, PoolId, Bytes) override {}
  void OnPoolLost(SessionId, PoolId, Reason) override {}
  void OnExported(SessionId, ExportId, StatusOr<ExportedBatch>) override {}
};

// All services over a real gRPC server on a Unix socket, before a real Store on a small
// Device.
class ServiceTest : public ::testing::Test {
 protected:
  static constexpr char kBootId[] = "000102030405060708090a0b0c0d0e0f";
  static constexpr int kMaxWatchers = 2;

  ServiceTest() {
    spdlog::set_level(spdlog::level::off);
    DeviceStoreOptions options;
    options.weights_capacity = KiB(512);
    options.segment_size = KiB(16);
    std::vector<DeviceOptions> devices;
    RuntimeStoreOptions runtime;
    runtime.capacity = KiB(256);
    runtime.segment_size = KiB(32);
    auto device = std::make_unique<SmallDevice>("host:0");
    device_ = device.get();
    devices.push_back({.device = std::move(device), .store = options, .runtime = runtime});
    store_ = std::make_unique<Store>(
        StoreOptions{.model_roots = {ModelRoot{.name = "models", .path = directory_.path()}}},
        std::move(devices), clock_, files_, events_);
    gate_ = std::make_unique<Gate>(kBootId, sessions_, clock_);
    wanted_ = std::make_unique<WantedModels>(*store_, directory_ / "pinned.yaml",
                                             std::vector<WantedModel>());
    model_service_ =
        std::make_unique<ModelService>(*store_, *wanted_, refusals_, *gate_, clock_, kMaxWatchers);
    lease_service_ = std::make_unique<LeaseService>(*store_, refusals_, *gate_, clock_);
    plan_service_ = std::make_unique<PlanService>(planner_, *gate_);
    maps_ = std::make_unique<MapMaker>(*store_, clock_, kBootId);
    control_ = std::make_unique<Control>(
        *store_, sessions_, clock_, /*drain_timeout=*/std::chrono::milliseconds(100),
        [this](SessionId session, const std::string& device, Duration) {
          const MutexLock lock(mutex_);
          asked_.emplace_back(session, device);
        },
        [this] { return reread_; });
    admin_service_ = std::make_unique<AdminService>(*store_, *wanted_, sessions_, refusals_, *gate_,
                                                    *maps_, clock_, "127.0.0.1:1", *control_);

    const std::string target = "unix:" + (directory_ / "grpc.sock");
    grpc::ServerBuilder builder;
    builder.AddListeningPort(target, grpc::InsecureServerCredentials());
    builder.RegisterService(model_service_.get());
    builder.RegisterService(lease_service_.get());
    builder.RegisterService(plan_service_.get());
    builder.RegisterService(admin_service_.get());
    std::vector<std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface>>
        interceptors;
    interceptors.push_back(rpcs_.NewInterceptorFactory());
    builder.experimental().SetInterceptorCreators(std::move(interceptors));
    server_ = builder.BuildAndStart();
    const auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
    models_ = v1::ModelService::NewStub(channel);
    leases_ = v1::LeaseService::NewStub(channel);
    admin_ = v1::AdminService::NewStub(channel);
    plans_ = v1::PlanService::NewStub(channel);
    token_ = OpenSession();
  }

  void TearDown() override {
    files_.Release();
    server_->Shutdown(std::chrono::system_clock::now() + std::chrono::milliseconds(100));
    store_->devices()[0]->WaitUntilQuiet();
    store_->devices()[0]->Validate();
    store_->runtimes()[0]->Validate();
  }

  // A process of root's, unless it is another one.
  std::string OpenSession(const SessionIdentity& identity = {.program = "tester",
                                                             .instance = "0"}) {
    const StatusOr<SessionRegistry::Opened> opened = sessions_.Open(*store_, identity);
    EXPECT_TRUE(opened.ok()) << opened.status();
    return opened->token;
  }

  // What a call of the session carries.
  std::unique_ptr<grpc::ClientContext> Call(const std::string& token) const {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata(kBootIdKey, kBootId);
    context->AddMetadata(kSessionTokenKey, token);
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return context;
  }
  std::unique_ptr<grpc::ClientContext> Call() const { return Call(token_); }

  // Writes a model of one tensor of `bytes` and returns a request that loads it.
  v1::LoadModelRequest RequestFor(const std::string& name, Bytes bytes, uint64_t seed) {
    WriteSafetensors(directory_ / (name + ".safetensors"),
                     {TensorSpec{.name = "t", .dtype = DType::kU8, .shape = {bytes.count()}}},
                     seed);
    v1::LoadModelRequest request;
    request.set_name(name);
    request.set_path("models/" + name + ".safetensors");
    return request;
  }

  v1::LoadModelResponse Load(const v1::LoadModelRequest& request) {
    v1::LoadModelResponse response;
    const grpc::Status status = models_->LoadModel(Call().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  v1::UnloadModelResponse Unload(const std::string& name) {
    v1::UnloadModelRequest request;
    request.set_name(name);
    v1::UnloadModelResponse response;
    const grpc::Status status = models_->UnloadModel(Call().get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }

  uint64_t LiveLeases() const { return store_->devices()[0]->TakeSnapshot().live_leases; }

  TempDir directory_;
  SteadyClock clock_;
  GatedFiles files_;
  NoEvents events_;
  SessionRegistry sessions_{clock_, 10};
  RefusalLog refusals_{sessions_, clock_};
  RpcMetrics rpcs_;
  Planner planner_{PlannerConfig(), clock_};
  SmallDevice* device_ = nullptr;
  std::unique_ptr<Store> store_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<WantedModels> wanted_;
  std::unique_ptr<ModelService> model_service_;
  std::unique_ptr<LeaseService> lease_service_;
  std::unique_ptr<PlanService> plan_service_;
  std::unique_ptr<MapMaker> maps_;
  Mutex mutex_;
  // Who was asked to let go of what.
  std::vector<std::pair<SessionId, std::string>> asked_ ABSL_GUARDED_BY(mutex_);
  // What becomes of a reload.
  StatusOr<std::vector<ConfigChange>> reread_ = std::vector<ConfigChange>();
  std::unique_ptr<Control> control_;
  std::unique_ptr<AdminService> admin_service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ModelService::Stub> models_;
  std::unique_ptr<v1::LeaseService::Stub> leases_;
  std::unique_ptr<v1::AdminService::Stub> admin_;
  std::unique_ptr<v1::PlanService::Stub> plans_;
  std::string token_;
};

// The reason in the error's details; "OK" for none, and what is wrong with it if it has no such
// details.
inline std::string ReasonOf(const grpc::Status& status) {
  if (status.ok()) return "OK";
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details()) || details.details_size() != 1 ||
      !details.details(0).UnpackTo(&info)) {
    return "no ErrorInfo: " + status.error_message();
  }
  return info.domain() == "tenure" ? info.reason() : "domain " + info.domain();
}

// Waits until `holds`, at most ten seconds.
inline bool Comes(const std::function<bool()>& holds) {
  for (int i = 0; i < 1000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace tenure
