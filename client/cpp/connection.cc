#include "client/cpp/connection.h"

#include <errno.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "client/cpp/daemon_plans.h"
#include "client/cpp/duration.h"
#include "client/cpp/error.h"
#include "client/cpp/translate.h"
#include "client/cpp/weight_lease_impl.h"

namespace tenure::client {
namespace {

// How long giving back may keep a caller; after that it goes on behind its back.
constexpr Duration kReleaseWait = std::chrono::seconds(2);

constexpr size_t kMaxNameBytes = 64;

// As many segments as the daemon takes back in one call.
constexpr int kMostShrunk = 10'000;

// A call that may grant, from before it is made until its lease is held.
class GrantScope {
 public:
  explicit GrantScope(HandleSession& session) : session_(session) { session_.BeginGrant(); }
  ~GrantScope() { session_.EndGrant(); }
  GrantScope(const GrantScope&) = delete;
  GrantScope& operator=(const GrantScope&) = delete;

 private:
  HandleSession& session_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<Connection>> Connection::Open(const ConnectOptions& options,
                                                             std::shared_ptr<Survivors> survivors,
                                                             Deadline deadline) {
  const std::string directory = options.directory.empty() ? DefaultDirectory() : options.directory;
  if (options.program.size() > kMaxNameBytes || options.instance.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError("program and instance have at most 64 bytes each");
  }
  const std::string program =
      options.program.empty() ? std::string(program_invocation_short_name).substr(0, kMaxNameBytes)
                              : options.program;
  const std::string instance =
      options.instance.empty() ? std::to_string(getpid()) : options.instance;
  absl::StatusOr<std::unique_ptr<HandleSession>> session = HandleSession::Open(
      directory + "/handle.sock", program, instance, deadline, std::move(survivors));
  if (!session.ok()) return session.status();
  std::shared_ptr<Connection> opened(new Connection(options, directory, *std::move(session)),
                                     [](Connection* connection) {
                                       if (connection->forked()) {
                                         connection->session_->AbandonAfterFork();
                                       } else if (connection->session_->InThread()) {
                                         // It cannot wait for itself to end.
                                         std::thread([connection] { delete connection; }).detach();
                                       } else {
                                         delete connection;
                                       }
                                     });
  opened->plans_ = std::make_shared<PlanCache>(DaemonPlans(opened));
  return opened;
}

Connection::Connection(const ConnectOptions& options, const std::string& directory,
                       std::unique_ptr<HandleSession> session)
    : directory_(directory),
      timeout_(options.timeout),
      session_(std::move(session)),
      rpc_(directory, session_->boot_id(), session_->token()),
      releases_(rpc_, *session_) {
  session_->SetGiveBack([this](uint64_t pool_id, const std::vector<uint64_t>& offsets) {
    v1::ShrinkPoolRequest shrink;
    for (const uint64_t offset : offsets) {
      shrink.set_pool_id(pool_id);
      shrink.add_offsets(offset);
      if (shrink.offsets_size() < kMostShrunk) continue;
      releases_.Add(std::exchange(shrink, {}));
    }
    if (!shrink.offsets().empty()) releases_.Add(std::move(shrink));
  });
}

// The session's thread must not use the queue once that is gone.
Connection::~Connection() { session_->SetGiveBack(nullptr); }

absl::Status Connection::Usable() const {
  if (forked()) return ForkedError();
  return session_->Alive();
}

absl::Status Connection::Explain(absl::Status status) const {
  if (!EndedWithoutReply(status)) return status;
  if (absl::Status alive = session_->Alive(); !alive.ok()) return alive;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return MakeError(absl::StatusCode::kUnavailable, kDaemonUnreachable,
                       "the daemon does not answer calls in " + directory_ + ": " +
                           std::string(status.message()),
                       {{"directory", directory_}});
    case absl::StatusCode::kDeadlineExceeded:
      return absl::DeadlineExceededError("the daemon did not reply in time");
    default:
      return status;
  }
}

std::string Connection::NextRequestId() {
  return "auto-" + std::to_string(requests_.fetch_add(1, std::memory_order_relaxed) + 1);
}

absl::StatusOr<WeightLease> Connection::Acquire(const AcquireRequest& request, Deadline deadline,
                                                const std::stop_token& cancel) {
  TENURE_CLIENT_RETURN_IF_ERROR(Usable());
  v1::AcquireWeightsRequest message;
  message.set_name(request.name);
  message.set_device(request.device);
  if (request.ttl) ToProto(*request.ttl, message.mutable_ttl());
  message.set_request_id(NextRequestId());

  const GrantScope scope(*session_);
  const Instant called_at = Now();
  v1::AcquireWeightsResponse response;
  const absl::Status status = rpc_.Call(rpc_.leases(), &v1::LeaseService::Stub::AcquireWeights,
                                        message, &response, deadline, cancel);
  if (!status.ok()) {
    if (EndedWithoutReply(status)) {
      v1::ReleaseLeaseRequest release;
      release.set_acquire_request_id(message.request_id());
      releases_.Add(std::move(release));
    }
    return Explain(status);
  }
  return Bind(response.lease(), called_at, deadline, cancel);
}

absl::StatusOr<LoadResult> Connection::Load(const LoadRequest& request, Deadline deadline,
                                            const std::stop_token& cancel) {
  TENURE_CLIENT_RETURN_IF_ERROR(Usable());
  v1::LoadModelRequest message = ToMessage(request);
  message.set_request_id(request.request_id.empty() ? NextRequestId() : request.request_id);

  const GrantScope scope(*session_);
  const Instant called_at = Now();
  v1::LoadModelResponse response;
  const absl::Status status = rpc_.Call(rpc_.models(), &v1::ModelService::Stub::LoadModel, message,
                                        &response, deadline, cancel);
  if (!status.ok()) {
    if (request.acquire && request.request_id.empty() && EndedWithoutReply(status)) {
      v1::ReleaseLeaseRequest release;
      release.set_load_request_id(message.request_id());
      releases_.Add(std::move(release));
    }
    return Explain(status);
  }
  LoadResult result = ToValue(response);
  if (response.has_lease()) {
    absl::StatusOr<WeightLease> lease = Bind(response.lease(), called_at, deadline, cancel);
    if (!lease.ok()) return lease.status();
    result.lease = *std::move(lease);
  }
  return result;
}

absl::Status Connection::Watch(const std::string& name, const std::string& device,
                               const std::function<bool(const ModelEvent&)>& on_event,
                               Deadline deadline, const std::stop_token& cancel) {
  TENURE_CLIENT_RETURN_IF_ERROR(Usable());
  v1::WatchModelRequest request;
  request.set_name(name);
  request.set_device(device);
  grpc::ClientContext context;
  rpc_.Prepare(context, deadline);
  const std::stop_callback on_stop(cancel, [&context] { context.TryCancel(); });
  const std::unique_ptr<grpc::ClientReader<v1::WatchModelResponse>> reader =
      rpc_.models().WatchModel(&context, request);
  v1::WatchModelResponse event;
  bool wanted = true;
  while (wanted && reader->Read(&event)) wanted = on_event(ToValue(event));
  if (!wanted) context.TryCancel();
  const absl::Status status = FromRpc(reader->Finish());
  return wanted ? Explain(status) : absl::OkStatus();
}

absl::StatusOr<WeightLease> Connection::Bind(const v1::WeightLease& granted, Instant called_at,
                                             Deadline deadline, const std::stop_token& cancel) {
  absl::StatusOr<LeasedDevice> device = ToDevice(granted);
  if (!device.ok()) {
    ReleaseLater(granted.lease_id());
    return device.status();
  }
  auto held =
      std::make_shared<HeldLease>(granted.lease_id(), *std::move(device), granted.region_id(),
                                  granted.region_bytes(), FromProto(granted.ttl()), called_at);
  const absl::StatusOr<const Mapping*> mapping = session_->Hold(held, deadline);
  if (!mapping.ok()) {
    ReleaseLater(granted.lease_id());
    return mapping.status();
  }
  absl::StatusOr<std::shared_ptr<const TensorTable>> tensors = TableOf(granted, deadline, cancel);
  if (!tensors.ok()) {
    Release(*held).IgnoreError();
    return tensors.status();
  }
  return WeightLease(std::make_unique<WeightLease::Impl>(shared_from_this(), std::move(held),
                                                         *mapping, *std::move(tensors), granted));
}

void Connection::ReleaseLater(uint64_t lease_id) {
  v1::ReleaseLeaseRequest release;
  release.set_lease_id(lease_id);
  releases_.Add(std::move(release));
}

absl::StatusOr<std::shared_ptr<const TensorTable>> Connection::TableOf(
    const v1::WeightLease& granted, Deadline deadline, const std::stop_token& cancel) {
  std::shared_ptr<const TensorTable> table = tables_.Find(granted.architecture_key());
  if (table == nullptr) {
    std::string key;
    absl::StatusOr<std::vector<TensorPlace>> places =
        ListTensors(granted.name(), granted.revision(), granted.device(), deadline, cancel, &key);
    if (!places.ok()) return places.status();
    if (key != granted.architecture_key()) {
      return ProtocolError("the tensors are of another architecture than the lease: " + key);
    }
    absl::StatusOr<std::shared_ptr<const TensorTable>> built =
        TensorTable::Build(*std::move(places));
    if (!built.ok()) return built.status();
    table = tables_.Put(key, *std::move(built));
  }
  if (table->extent_bytes() > granted.region_bytes()) {
    return ProtocolError("the tensors do not fit their region, bytes: " +
                         std::to_string(granted.region_bytes()));
  }
  return table;
}

absl::StatusOr<std::vector<TensorPlace>> Connection::ListTensors(
    const std::string& name, uint64_t revision, const std::string& device, Deadline deadline,
    const std::stop_token& cancel, std::string* architecture_key) {
  std::vector<TensorPlace> places;
  v1::ListTensorsRequest request;
  request.set_name(name);
  request.set_revision(revision);
  request.set_device(device);
  request.set_page_size(10'000);
  do {
    v1::ListTensorsResponse response;
    TENURE_CLIENT_RETURN_IF_ERROR(Call(rpc_.models(), &v1::ModelService::Stub::ListTensors, request,
                                       &response, deadline, cancel));
    if (response.tensors().empty() && !response.next_page_token().empty()) {
      return ProtocolError("a page of tensors is empty");
    }
    for (const v1::Tensor& tensor : response.tensors()) places.push_back(ToValue(tensor));
    if (architecture_key != nullptr) *architecture_key = response.architecture_key();
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return places;
}

template <typename Method, typename Request, typename Reply>
absl::StatusOr<Instant> Connection::AskForMemory(Method method, Request request, Reply* reply,
                                                 Deadline deadline, const std::stop_token& cancel) {
  // What was given back for this may be needed.
  releases_.Await(Deadline(std::min<Duration>(deadline.left(), kReleaseWait)));
  request.set_request_id(NextRequestId());
  const Instant called_at = Now();
  const absl::Status status = rpc_.Call(rpc_.leases(), method, request, reply, deadline, cancel);
  if (status.ok()) return called_at;
  if (EndedWithoutReply(status)) {
    v1::ReleaseBuffersRequest release;
    release.set_request_id(request.request_id());
    releases_.Add(std::move(release));
  }
  return Explain(status);
}

absl::StatusOr<Connection::GrownPool> Connection::GrowPool(const v1::GrowPoolRequest& request,
                                                           Deadline deadline,
                                                           const std::stop_token& cancel) {
  TENURE_CLIENT_RETURN_IF_ERROR(Usable());
  v1::GrowPoolResponse response;
  TENURE_CLIENT_ASSIGN_OR_RETURN(
      const Instant called_at,
      AskForMemory(&v1::LeaseService::Stub::GrowPool, request, &response, deadline, cancel));
  GrownPool grown{
      .pool = {}, .mapping = {}, .offset = response.offset(), .bytes = response.bytes()};
  TENURE_CLIENT_ASSIGN_OR_RETURN(grown.pool, ToValue(response.pool()));
  grown.pool.granted_at = called_at;
  std::vector<uint64_t> offsets;
  for (uint64_t offset = grown.offset; offset < grown.offset + grown.bytes;
       offset += grown.pool.segment_bytes) {
    offsets.push_back(offset);
  }
  TENURE_CLIENT_ASSIGN_OR_RETURN(
      grown.mapping, session_->MapSegments(grown.pool, std::move(offsets), deadline, cancel));
  return grown;
}

absl::StatusOr<Connection::GrantedBuffer> Connection::AcquireBuffer(
    const v1::AcquireBuffersRequest& request, Deadline deadline, const std::stop_token& cancel) {
  TENURE_CLIENT_RETURN_IF_ERROR(Usable());
  v1::AcquireBuffersResponse response;
  TENURE_CLIENT_ASSIGN_OR_RETURN(
      const Instant called_at,
      AskForMemory(&v1::LeaseService::Stub::AcquireBuffers, request, &response, deadline, cancel));
  if (response.buffers_size() != 1) return ProtocolError("other buffers than were asked for");
  const v1::Buffer& buffer = response.buffers(0);
  absl::StatusOr<PoolSpec> pool = ToValue(response.pool());
  absl::Status mapped = pool.status();
  if (mapped.ok() &&
      (buffer.size() < request.buffers(0).size() || buffer.size() > pool->range_bytes ||
       buffer.offset() > pool->range_bytes - buffer.size())) {
    mapped = ProtocolError("a buffer that does not fit its pool");
  }
  if (mapped.ok()) {
    pool->granted_at = called_at;
    mapped = session_->MapBuffer(*pool, buffer.offset(), buffer.size(), deadline, cancel).status();
  }
  if (!mapped.ok()) {
    ReleaseBuffers({buffer.buffer_id()});
    return mapped;
  }
  return GrantedBuffer{.pool_id = response.pool().pool_id(),
                       .offset = buffer.offset(),
                       .buffer_id = buffer.buffer_id()};
}

void Connection::ReleaseBuffers(const std::vector<uint64_t>& buffer_ids) {
  v1::ReleaseBuffersRequest release;
  release.mutable_buffers()->mutable_buffer_ids()->Assign(buffer_ids.begin(), buffer_ids.end());
  releases_.Add(std::move(release));
}

absl::Status Connection::Release(const HeldLease& lease) {
  TENURE_CLIENT_RETURN_IF_ERROR(forked() ? Usable() : absl::OkStatus());
  session_->Drop(lease);
  TENURE_CLIENT_RETURN_IF_ERROR(session_->Alive());
  v1::ReleaseLeaseRequest request;
  request.set_lease_id(lease.lease_id());
  v1::ReleaseLeaseResponse response;
  absl::Status status = rpc_.Call(rpc_.leases(), &v1::LeaseService::Stub::ReleaseLease, request,
                                  &response, Deadline(std::min<Duration>(timeout_, kReleaseWait)));
  if (EndedWithoutReply(status)) releases_.Add(std::move(request));
  return Explain(std::move(status));
}

}  // namespace tenure::client
