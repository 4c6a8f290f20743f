#include "server/model_service.h"

#include <chrono>
#include <optional>
#include <spdlog/spdlog.h>
#include <string>
#include <thread>
#include <utility>

#include "server/errors.h"
#include "server/model_lists.h"
#include "server/model_watch.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr Duration kMaxLoadCall = std::chrono::minutes(15);
// Each waiting call holds a thread.
constexpr int kMaxLoadCalls = 128;
constexpr Duration kWatchInterval = std::chrono::milliseconds(20);

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// Reads with the name of what is full last.
Status RefuseAdmission(const Limit& limit, std::string_view what) {
  return Error(
      Reason::kLimit,
      "the daemon serves no more than " + std::to_string(limit.most()) + " " + std::string(what),
      {{"limit", std::to_string(limit.most())}});
}

// True if the error tells about the call and not about the model.
bool ConcernsCallOnly(const Status& error) {
  return HasReason(error, Reason::kShuttingDown) || HasReason(error, Reason::kRequestIdReused) ||
         HasReason(error, Reason::kSessionUnknown);
}

void LogLoaded(const LoadRequest& load, const LoadResult& result) {
  spdlog::info(
      "model loaded name={} revision={} device={} reuse={} copied_bytes={} region_bytes={} "
      "seconds={:.6f} "
      "segments_created={} segments_reused={} reclaimed={} session={} request_id={}",
      result.model.name, result.model.revision.value(), result.model.device,
      ReuseName(result.reuse), result.copied.count(), result.model.region_bytes.count(),
      Seconds(result.phases.total), result.segments_created, result.segments_reused,
      result.reclaimed.size(), load.session.value(), load.request_id);
}

}  // namespace

ModelService::ModelService(Store& store, WantedModels& wanted, RefusalLog& refusals,
                           const Gate& gate, const Clock& clock, int max_watchers)
    : store_(store),
      wanted_(wanted),
      refusals_(refusals),
      gate_(gate),
      clock_(clock),
      loads_(kMaxLoadCalls),
      watchers_(max_watchers) {}

grpc::Status ModelService::LoadModel(grpc::ServerContext* context,
                                     const v1::LoadModelRequest* request,
                                     v1::LoadModelResponse* response) {
  return ToGrpcStatus(Load(*context, *request, *response));
}

Status ModelService::Load(grpc::ServerContext& context, const v1::LoadModelRequest& request,
                          v1::LoadModelResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  return refusals_.Note("LoadModel", session, LoadFor(session, context, request, response));
}

Status ModelService::LoadFor(SessionId session, grpc::ServerContext& context,
                             const v1::LoadModelRequest& request, v1::LoadModelResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const LoadRequest load, FromProto(request, session));
  TENURE_RETURN_IF_ERROR(gate_.CheckOpenForLoads());
  const std::optional<Limit::Place> place = loads_.TryEnter();
  if (!place.has_value()) return RefuseAdmission(loads_, "loads at a time");
  if (request.validate_only()) return Inspect(load, response);

  Status pinned = wanted_.OnLoading(load);
  if (!pinned.ok()) {
    NoteFailure(load, pinned);
    return pinned;
  }
  StatusOr<LoadResult> result = store_.Load(load, gate_.LimitsOf(context, kMaxLoadCall));
  if (!result.ok()) {
    wanted_.OnLoadFailed(load);
    NoteFailure(load, result.status());
    return result.status();
  }
  LogLoaded(load, *result);
  wanted_.OnLoaded(load, result->model);
  // A call with a request id may be repeated, and is withdrawn by that id: its lease is not ours to
  // end.
  if (load.request_id.empty() && result->lease.has_value() && context.IsCancelled()) {
    store_.Release(session, result->lease->id).IgnoreError();
    return Error(Reason::kCancelled, "the caller left before the lease could be handed over");
  }
  response = ToProto(*result);
  return absl::OkStatus();
}

Status ModelService::Inspect(const LoadRequest& load, v1::LoadModelResponse& response) {
  if (load.acquire) {
    return Error(Reason::kInvalidRequest,
                 "validate_only loads nothing, so acquire makes no sense with it");
  }
  TENURE_ASSIGN_OR_RETURN(const ModelView view, store_.Inspect(load));
  *response.mutable_model() = ToProto(view);
  response.mutable_model()->clear_revision();
  response.mutable_model()->clear_state();
  return absl::OkStatus();
}

void ModelService::NoteFailure(const LoadRequest& load, const Status& error) {
  const std::optional<ErrorDetail> detail = DetailOf(error);
  spdlog::warn("load refused name={} device={} session={} request_id={} reason={} message={}",
               load.name, load.device, load.session.value(), load.request_id,
               detail.has_value() ? detail->reason : "", std::string(error.message()));
  if (ConcernsCallOnly(error)) return;
  // Others may still wait for the load that this caller gave up.
  const bool gave_up = HasReason(error, Reason::kDeadline) ||
                       HasReason(error, Reason::kReclaimPending) ||
                       HasReason(error, Reason::kCancelled);
  if (gave_up && store_.ProgressOf(load.name, load.device).has_value()) return;
  // What is online stays so: the load that failed was to replace it.
  const StatusOr<ModelView> model = store_.GetModel(load.name, Revision(), load.device);
  if (model.ok() &&
      (model->state == RegionState::kActive || model->state == RegionState::kDraining)) {
    return;
  }
  failures_.Record(load.name, load.device, error);
}

grpc::Status ModelService::UnloadModel(grpc::ServerContext* context,
                                       const v1::UnloadModelRequest* request,
                                       v1::UnloadModelResponse* response) {
  return ToGrpcStatus(Unload(*context, *request, *response));
}

Status ModelService::Unload(grpc::ServerContext& context, const v1::UnloadModelRequest& request,
                            v1::UnloadModelResponse& response) {
  TENURE_ASSIGN_OR_RETURN(const SessionId session, gate_.Admit(context));
  TENURE_RETURN_IF_ERROR(gate_.CheckUnload(session));
  TENURE_RETURN_IF_ERROR(CheckName(request.name()));
  TENURE_ASSIGN_OR_RETURN(
      const UnloadResult result,
      store_.Unload(request.name(), Revision(request.revision()), request.device()));
  wanted_.OnUnloaded(request.name(), request.device());
  response = ToProto(result);
  spdlog::info(
      "model unloaded name={} state={} freed_bytes={} retained_bytes={} deferred_bytes={} "
      "session={}",
      request.name(), RegionStateName(result.state), result.freed.count(), result.retained.count(),
      result.deferred.count(), session.value());
  return absl::OkStatus();
}

grpc::Status ModelService::GetModel(grpc::ServerContext* context,
                                    const v1::GetModelRequest* request, v1::Model* response) {
  const auto get = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.Admit(*context).status());
    TENURE_RETURN_IF_ERROR(CheckName(request->name()));
    TENURE_ASSIGN_OR_RETURN(
        const ModelView view,
        store_.GetModel(request->name(), Revision(request->revision()), request->device()));
    *response = ToProto(view);
    return absl::OkStatus();
  };
  return ToGrpcStatus(get());
}

grpc::Status ModelService::ListModels(grpc::ServerContext* context,
                                      const v1::ListModelsRequest* request,
                                      v1::ListModelsResponse* response) {
  const auto list = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.Admit(*context).status());
    TENURE_ASSIGN_OR_RETURN(*response, ListModelsPage(store_.Models(), *request));
    return absl::OkStatus();
  };
  return ToGrpcStatus(list());
}

grpc::Status ModelService::ListTensors(grpc::ServerContext* context,
                                       const v1::ListTensorsRequest* request,
                                       v1::ListTensorsResponse* response) {
  const auto list = [&]() -> Status {
    TENURE_RETURN_IF_ERROR(gate_.Admit(*context).status());
    TENURE_RETURN_IF_ERROR(CheckName(request->name()));
    TENURE_ASSIGN_OR_RETURN(
        const ModelView view,
        store_.GetModel(request->name(), Revision(request->revision()), request->device()));
    TENURE_ASSIGN_OR_RETURN(*response, ListTensorsPage(view, *request));
    return absl::OkStatus();
  };
  return ToGrpcStatus(list());
}

grpc::Status ModelService::WatchModel(grpc::ServerContext* context,
                                      const v1::WatchModelRequest* request,
                                      grpc::ServerWriter<v1::WatchModelResponse>* writer) {
  return ToGrpcStatus(Watch(*context, *request, *writer));
}

Status ModelService::Watch(grpc::ServerContext& context, const v1::WatchModelRequest& request,
                           grpc::ServerWriter<v1::WatchModelResponse>& writer) {
  TENURE_RETURN_IF_ERROR(gate_.Admit(context).status());
  TENURE_RETURN_IF_ERROR(CheckName(request.name()));
  const std::optional<Limit::Place> place = watchers_.TryEnter();
  if (!place.has_value()) return RefuseAdmission(watchers_, "watches at a time");

  ModelWatch watch(store_, failures_, clock_, request.name(), request.device());
  // From here on nothing is missed, and the caller may know.
  writer.SendInitialMetadata();
  while (!context.IsCancelled()) {
    TENURE_RETURN_IF_ERROR(gate_.CheckOpenForLoads());
    if (const std::optional<v1::WatchModelResponse> message = watch.Poll()) {
      if (!writer.Write(*message)) break;
    }
    if (watch.ended()) return absl::OkStatus();
    std::this_thread::sleep_for(kWatchInterval);
  }
  return Error(Reason::kCancelled, "the watch was cancelled");
}

}  // namespace tenure
