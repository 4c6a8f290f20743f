#include "tenure/client.h"

#include <google/protobuf/message.h>
#include <stdlib.h>
#include <tenure/v1/flight_record.pb.h>
#include <utility>

#include "client/cpp/connection.h"
#include "client/cpp/error.h"
#include "client/cpp/message_json.h"
#include "client/cpp/reconnector.h"
#include "client/cpp/session_pool.h"
#include "client/cpp/translate.h"
#include "client/cpp/translate_events.h"
#include "client/cpp/translate_refusals.h"

namespace tenure::client {
namespace {

// A unary call that grants nothing: CallOnce(reconnector, deadline, cancel, &Rpc::models,
// &v1::ModelService::Stub::GetModel, request, response).
template <typename Stub, typename Request, typename Reply>
absl::Status CallOnce(Reconnector& reconnector, Deadline deadline, const std::stop_token& cancel,
                      Stub& (Rpc::*stub)(),
                      grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                      const Request& request, Reply& reply) {
  return reconnector.Run(deadline, [&](Connection& connection) {
    return connection.Call((connection.rpc().*stub)(), method, request, &reply, deadline, cancel);
  });
}

absl::Status FetchMap(Reconnector& reconnector, Deadline deadline, const std::stop_token& cancel,
                      v1::MemoryMap& map) {
  std::string bytes;
  v1::GetMemoryMapRequest request;
  do {
    v1::GetMemoryMapResponse response;
    TENURE_CLIENT_RETURN_IF_ERROR(CallOnce(reconnector, deadline, cancel, &Rpc::admin,
                                           &v1::AdminService::Stub::GetMemoryMap, request,
                                           response));
    bytes += response.part();
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  if (map.ParseFromString(bytes)) return absl::OkStatus();
  return absl::InternalError("the daemon's memory map cannot be read");
}

}  // namespace

std::string DefaultDirectory() {
  const char* directory = getenv("TENURE_DIR");
  return directory != nullptr && *directory != '\0' ? directory : "/run/tenure";
}

std::string_view Version() { return TENURE_CLIENT_VERSION; }

Client::Client(const ConnectOptions& options, std::unique_ptr<Reconnector> reconnector)
    : timeout_(options.timeout),
      load_timeout_(options.load_timeout),
      reconnector_(std::move(reconnector)) {}
Client::Client(Client&& other) noexcept = default;
Client& Client::operator=(Client&& other) noexcept = default;
Client::~Client() = default;

absl::StatusOr<Client> Client::Connect(const ConnectOptions& options) {
  TENURE_CLIENT_ASSIGN_OR_RETURN(std::unique_ptr<Reconnector> reconnector,
                                 Reconnector::Open(options));
  return Client(options, std::move(reconnector));
}

absl::StatusOr<LoadResult> Client::Load(const LoadRequest& request,
                                        const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(load_timeout_));
  return reconnector_->Run(deadline, [&](Connection& connection) {
    return connection.Load(request, deadline, options.cancel);
  });
}

absl::StatusOr<WeightLease> Client::Acquire(const AcquireRequest& request,
                                            const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(timeout_));
  return reconnector_->Run(deadline, [&](Connection& connection) {
    return connection.Acquire(request, deadline, options.cancel);
  });
}

absl::StatusOr<BufferPool> Client::OpenPool(const PoolOptions& pool,
                                            const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(timeout_));
  std::shared_ptr<PlanCache> plans;
  absl::StatusOr<std::shared_ptr<LocalPool>> opened =
      reconnector_->Run(deadline, [&](Connection& connection) {
        plans = connection.plans();
        return SessionPool::Open(connection.shared_from_this(), pool, timeout_, deadline,
                                 options.cancel);
      });
  if (!opened.ok()) return opened.status();
  return BufferPool(*std::move(opened), std::move(plans));
}

absl::StatusOr<UnloadResult> Client::Unload(const std::string& name, uint64_t revision,
                                            const std::string& device,
                                            const CallOptions& options) const {
  v1::UnloadModelRequest request;
  request.set_name(name);
  request.set_revision(revision);
  request.set_device(device);
  v1::UnloadModelResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(
      CallOnce(*reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel,
               &Rpc::models, &v1::ModelService::Stub::UnloadModel, request, response));
  return ToValue(response);
}

absl::StatusOr<Model> Client::Get(const std::string& name, uint64_t revision,
                                  const std::string& device, const CallOptions& options) const {
  v1::GetModelRequest request;
  request.set_name(name);
  request.set_revision(revision);
  request.set_device(device);
  v1::Model response;
  TENURE_CLIENT_RETURN_IF_ERROR(
      CallOnce(*reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel,
               &Rpc::models, &v1::ModelService::Stub::GetModel, request, response));
  return ToValue(response);
}

absl::StatusOr<std::vector<Model>> Client::List(const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(timeout_));
  std::vector<Model> models;
  v1::ListModelsRequest request;
  request.set_page_size(1000);
  do {
    v1::ListModelsResponse response;
    TENURE_CLIENT_RETURN_IF_ERROR(CallOnce(*reconnector_, deadline, options.cancel, &Rpc::models,
                                           &v1::ModelService::Stub::ListModels, request, response));
    for (const v1::Model& model : response.models()) models.push_back(ToValue(model));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return models;
}

absl::StatusOr<std::vector<TensorPlace>> Client::ListTensors(const std::string& name,
                                                             uint64_t revision,
                                                             const std::string& device,
                                                             const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(timeout_));
  return reconnector_->Run(deadline, [&](Connection& connection) {
    return connection.ListTensors(name, revision, device, deadline, options.cancel);
  });
}

absl::Status Client::Watch(const std::string& name, const std::string& device,
                           const std::function<bool(const ModelEvent&)>& on_event,
                           const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(load_timeout_));
  return reconnector_->Run(deadline, [&](Connection& connection) {
    return connection.Watch(name, device, on_event, deadline, options.cancel);
  });
}

absl::StatusOr<DaemonStatus> Client::Status(const CallOptions& options) const {
  v1::GetStatusResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(
      CallOnce(*reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel,
               &Rpc::admin, &v1::AdminService::Stub::GetStatus, v1::GetStatusRequest(), response));
  return ToValue(response);
}

absl::StatusOr<std::vector<Session>> Client::Sessions(const CallOptions& options) const {
  v1::ListSessionsResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallOnce(
      *reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel, &Rpc::admin,
      &v1::AdminService::Stub::ListSessions, v1::ListSessionsRequest(), response));
  std::vector<Session> sessions;
  for (const v1::Session& session : response.sessions()) sessions.push_back(ToValue(session));
  return sessions;
}

absl::StatusOr<Refusal> Client::ExplainRefusal(uint64_t refusal_id,
                                               const CallOptions& options) const {
  v1::ExplainRefusalRequest request;
  request.set_refusal_id(refusal_id);
  v1::ExplainRefusalResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(
      CallOnce(*reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel,
               &Rpc::admin, &v1::AdminService::Stub::ExplainRefusal, request, response));
  return ToValue(response);
}

absl::StatusOr<std::vector<DeviceFit>> Client::Fit(const FitRequest& request,
                                                   const CallOptions& options) const {
  v1::FitResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(
      CallOnce(*reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel,
               &Rpc::admin, &v1::AdminService::Stub::Fit, ToMessage(request), response));
  std::vector<DeviceFit> fits;
  for (const v1::DeviceFit& fit : response.devices()) fits.push_back(ToValue(fit));
  return fits;
}

absl::StatusOr<EventList> Client::ListEvents(const EventRequest& request,
                                             const CallOptions& options) const {
  v1::ListEventsResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(CallOnce(
      *reconnector_, Deadline(options.timeout.value_or(timeout_ + request.wait)), options.cancel,
      &Rpc::admin, &v1::AdminService::Stub::ListEvents, ToMessage(request), response));
  return ToValue(response);
}

absl::StatusOr<std::string> Client::MemoryMapJson(const CallOptions& options) const {
  v1::MemoryMap map;
  TENURE_CLIENT_RETURN_IF_ERROR(
      FetchMap(*reconnector_, Deadline(options.timeout.value_or(timeout_)), options.cancel, map));
  return MessageJson(map);
}

absl::StatusOr<std::string> Client::FlightRecordJson(const CallOptions& options) const {
  const Deadline deadline(options.timeout.value_or(timeout_));
  v1::FlightRecord record;
  record.set_schema(1);
  TENURE_CLIENT_RETURN_IF_ERROR(
      FetchMap(*reconnector_, deadline, options.cancel, *record.mutable_map()));
  v1::ListEventsRequest request;
  // Others may make events faster than they can be fetched.
  std::optional<uint64_t> until;
  while (!until || request.after() < *until) {
    v1::ListEventsResponse response;
    TENURE_CLIENT_RETURN_IF_ERROR(CallOnce(*reconnector_, deadline, options.cancel, &Rpc::admin,
                                           &v1::AdminService::Stub::ListEvents, request, response));
    if (!until) until = response.last();
    if (response.events().empty()) break;
    request.set_after(response.events().rbegin()->sequence());
    record.mutable_events()->MergeFrom(response.events());
  }
  return MessageJson(record);
}

uint64_t Client::session_id() const { return reconnector_->last()->session().session_id(); }

std::string Client::boot_id() const { return reconnector_->last()->session().boot_id(); }

size_t Client::mapped_region_count() const {
  const std::shared_ptr<Connection> connection = reconnector_->last();
  return connection->forked() ? 0 : connection->session().mapped_region_count();
}

}  // namespace tenure::client
