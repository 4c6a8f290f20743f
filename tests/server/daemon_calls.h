#pragma once

#include <chrono>
#include <grpcpp/create_channel.h>
#include <memory>
#include <string>
#include <tenure/v1/admin.grpc.pb.h>
#include <tenure/v1/model.grpc.pb.h>

#include "core/base/clock.h"
#include "tests/server/handle_client.h"

namespace tenure {

// A session with the daemon of a directory, and some of its calls. Throws where the daemon is at
// fault. Thread-compatible.
class DaemonCalls {
 public:
  explicit DaemonCalls(const std::string& directory)
      : directory_(directory),
        handle_(directory + "/handle.sock"),
        welcome_(handle_.Join()),
        channel_(grpc::CreateChannel("unix:" + directory + "/grpc.sock",
                                     grpc::InsecureChannelCredentials())),
        models_(v1::ModelService::NewStub(channel_)),
        admin_(v1::AdminService::NewStub(channel_)) {}

  v1::GetStatusResponse Status() {
    v1::GetStatusResponse response;
    const auto context = Context();
    if (!admin_->GetStatus(context.get(), {}, &response).ok()) {
      throw std::runtime_error("the daemon does not answer");
    }
    return response;
  }
  bool Cordon(const std::string& device) {
    v1::CordonRequest request;
    request.set_device(device);
    v1::CordonResponse response;
    return admin_->Cordon(Context().get(), request, &response).ok();
  }
  bool Unload(const std::string& name) {
    v1::UnloadModelRequest request;
    request.set_name(name);
    v1::UnloadModelResponse response;
    return models_->UnloadModel(Context().get(), request, &response).ok();
  }
  bool BecomesOnline(const std::string& name) {
    return Eventually([&] { return Get(name).state() == v1::MODEL_STATE_ACTIVE; });
  }
  // How long it is kept yet.
  Duration RetainedFor(const std::string& name) {
    const google::protobuf::Duration left = Get(name).expires_in();
    return std::chrono::seconds(left.seconds()) + Duration(left.nanos());
  }
  Duration HeartbeatIntervalOfANewSession() const {
    const google::protobuf::Duration interval =
        HandleClient(directory_ + "/handle.sock").Join().heartbeat_interval();
    return std::chrono::seconds(interval.seconds()) + Duration(interval.nanos());
  }

 private:
  std::unique_ptr<grpc::ClientContext> Context() const {
    auto context = std::make_unique<grpc::ClientContext>();
    context->AddMetadata("tenure-boot-id", welcome_.boot_id());
    context->AddMetadata("tenure-session-token", welcome_.token());
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return context;
  }
  // An empty one if there is none.
  v1::Model Get(const std::string& name) {
    v1::GetModelRequest request;
    request.set_name(name);
    v1::Model model;
    (void)models_->GetModel(Context().get(), request, &model);
    return model;
  }

  const std::string directory_;
  HandleClient handle_;
  const v1::Welcome welcome_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::ModelService::Stub> models_;
  const std::unique_ptr<v1::AdminService::Stub> admin_;
};

}  // namespace tenure
