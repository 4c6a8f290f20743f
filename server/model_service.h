#pragma once

#include <tenure/v1/model.grpc.pb.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/store/store.h"
#include "server/gate.h"
#include "server/limit.h"
#include "server/load_failures.h"
#include "server/refusal_log.h"
#include "server/wanted_models.h"

namespace tenure {

// ModelService of proto/tenure/v1/model.proto: checks, calls the Store, translates. Thread-safe.
class ModelService final : public v1::ModelService::Service {
 public:
  // All references outlive the service.
  ModelService(Store& store, WantedModels& wanted, RefusalLog& refusals, const Gate& gate,
               const Clock& clock, int max_watchers);

  grpc::Status LoadModel(grpc::ServerContext* context, const v1::LoadModelRequest* request,
                         v1::LoadModelResponse* response) override;
  grpc::Status UnloadModel(grpc::ServerContext* context, const v1::UnloadModelRequest* request,
                           v1::UnloadModelResponse* response) override;
  grpc::Status GetModel(grpc::ServerContext* context, const v1::GetModelRequest* request,
                        v1::Model* response) override;
  grpc::Status ListModels(grpc::ServerContext* context, const v1::ListModelsRequest* request,
                          v1::ListModelsResponse* response) override;
  grpc::Status ListTensors(grpc::ServerContext* context, const v1::ListTensorsRequest* request,
                           v1::ListTensorsResponse* response) override;
  grpc::Status WatchModel(grpc::ServerContext* context, const v1::WatchModelRequest* request,
                          grpc::ServerWriter<v1::WatchModelResponse>* writer) override;

  // Whoever watches goes on.
  void SetMaxWatchers(int max_watchers) { watchers_.SetMost(max_watchers); }

 private:
  Status Load(grpc::ServerContext& context, const v1::LoadModelRequest& request,
              v1::LoadModelResponse& response);
  Status LoadFor(SessionId session, grpc::ServerContext& context,
                 const v1::LoadModelRequest& request, v1::LoadModelResponse& response);
  Status Inspect(const LoadRequest& load, v1::LoadModelResponse& response);
  Status Unload(grpc::ServerContext& context, const v1::UnloadModelRequest& request,
                v1::UnloadModelResponse& response);
  Status Watch(grpc::ServerContext& context, const v1::WatchModelRequest& request,
               grpc::ServerWriter<v1::WatchModelResponse>& writer);
  void NoteFailure(const LoadRequest& load, const Status& error);

  Store& store_;
  WantedModels& wanted_;
  RefusalLog& refusals_;
  const Gate& gate_;
  const Clock& clock_;
  Limit loads_;
  Limit watchers_;
  LoadFailures failures_;
};

}  // namespace tenure
