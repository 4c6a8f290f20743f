#include "tenure/client.h"

#include <stdlib.h>
#include <utility>

#include "client/cpp/connection.h"
#include "client/cpp/error.h"
#include "client/cpp/translate.h"

namespace tenure::client {

std::string DefaultDirectory() {
  const char* directory = getenv("TENURE_DIR");
  return directory != nullptr && *directory != '\0' ? directory : "/run/tenure";
}

std::string_view Version() { return TENURE_CLIENT_VERSION; }

Client::Client(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
Client::Client(Client&& other) noexcept = default;
Client& Client::operator=(Client&& other) noexcept = default;
Client::~Client() = default;

absl::StatusOr<Client> Client::Connect(const ConnectOptions& options) {
  absl::StatusOr<std::shared_ptr<Connection>> connection = Connection::Open(options);
  if (!connection.ok()) return connection.status();
  return Client(*std::move(connection));
}

absl::StatusOr<LoadResult> Client::Load(const LoadRequest& request,
                                        const CallOptions& options) const {
  return connection_->Load(request, options);
}

absl::StatusOr<WeightLease> Client::Acquire(const AcquireRequest& request,
                                            const CallOptions& options) const {
  return connection_->Acquire(request, options);
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
      connection_->Call(connection_->rpc().models(), &v1::ModelService::Stub::UnloadModel, request,
                        &response, connection_->DeadlineOf(options), options.cancel));
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
      connection_->Call(connection_->rpc().models(), &v1::ModelService::Stub::GetModel, request,
                        &response, connection_->DeadlineOf(options), options.cancel));
  return ToValue(response);
}

absl::StatusOr<std::vector<Model>> Client::List(const CallOptions& options) const {
  const Deadline deadline = connection_->DeadlineOf(options);
  std::vector<Model> models;
  v1::ListModelsRequest request;
  request.set_page_size(1000);
  do {
    v1::ListModelsResponse response;
    TENURE_CLIENT_RETURN_IF_ERROR(connection_->Call(connection_->rpc().models(),
                                                    &v1::ModelService::Stub::ListModels, request,
                                                    &response, deadline, options.cancel));
    for (const v1::Model& model : response.models()) models.push_back(ToValue(model));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return models;
}

absl::StatusOr<std::vector<TensorPlace>> Client::ListTensors(const std::string& name,
                                                             uint64_t revision,
                                                             const std::string& device,
                                                             const CallOptions& options) const {
  return connection_->ListTensors(name, revision, device, connection_->DeadlineOf(options),
                                  options.cancel);
}

absl::Status Client::Watch(const std::string& name, const std::string& device,
                           const std::function<bool(const ModelEvent&)>& on_event,
                           const CallOptions& options) const {
  TENURE_CLIENT_RETURN_IF_ERROR(connection_->Usable());
  v1::WatchModelRequest request;
  request.set_name(name);
  request.set_device(device);
  grpc::ClientContext context;
  connection_->rpc().Prepare(context, connection_->LoadDeadlineOf(options));
  const std::stop_callback on_stop(options.cancel, [&context] { context.TryCancel(); });
  const std::unique_ptr<grpc::ClientReader<v1::WatchModelResponse>> reader =
      connection_->rpc().models().WatchModel(&context, request);
  v1::WatchModelResponse event;
  bool wanted = true;
  while (wanted && reader->Read(&event)) wanted = on_event(ToValue(event));
  if (!wanted) context.TryCancel();
  const absl::Status status = FromRpc(reader->Finish());
  return wanted ? connection_->Explain(status) : absl::OkStatus();
}

absl::StatusOr<DaemonStatus> Client::Status(const CallOptions& options) const {
  v1::GetStatusResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(connection_->Call(
      connection_->rpc().admin(), &v1::AdminService::Stub::GetStatus, v1::GetStatusRequest(),
      &response, connection_->DeadlineOf(options), options.cancel));
  return ToValue(response);
}

absl::StatusOr<std::vector<Session>> Client::Sessions(const CallOptions& options) const {
  v1::ListSessionsResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(connection_->Call(
      connection_->rpc().admin(), &v1::AdminService::Stub::ListSessions, v1::ListSessionsRequest(),
      &response, connection_->DeadlineOf(options), options.cancel));
  std::vector<Session> sessions;
  for (const v1::Session& session : response.sessions()) sessions.push_back(ToValue(session));
  return sessions;
}

uint64_t Client::session_id() const { return connection_->session().session_id(); }
const std::string& Client::boot_id() const { return connection_->session().boot_id(); }

size_t Client::mapped_region_count() const {
  return connection_->forked() ? 0 : connection_->session().mapped_region_count();
}

}  // namespace tenure::client
