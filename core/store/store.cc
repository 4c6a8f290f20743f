#include "core/store/store.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <tuple>
#include <utility>

namespace tenure {
namespace {

// A header takes about 100 bytes a tensor, and a few times that once it is parsed.
constexpr Bytes kKeptHeaders = MiB(16);

Digest128 ParametersOf(const LoadRequest& request) {
  Digester digester;
  digester.Add(request.name);
  digester.Add(request.path);
  digester.Add(request.device);
  digester.Add(request.pin ? 1 : 0);
  digester.Add(request.acquire ? 1 : 0);
  for (const std::optional<Duration>& duration : {request.retain_ttl, request.lease_ttl}) {
    digester.Add(duration.has_value() ? 1 : 0);
    digester.Add(static_cast<uint64_t>(duration.value_or(Duration::zero()).count()));
  }
  return digester.Finish();
}

Status LeaseNotFound(LeaseId lease) {
  return Error(Reason::kLeaseNotFound, absl::StrCat("no such lease: ", lease.value()),
               {{"lease_id", absl::StrCat(lease.value())}});
}

}  // namespace

Store::Store(StoreOptions options, std::vector<DeviceOptions> devices, const Clock& clock,
             FileLayer& files, SessionEvents& events)
    : options_(std::move(options)),
      clock_(clock),
      files_(files),
      copy_engine_(clock, options_.copy_threads),
      parsed_models_(kKeptHeaders) {
  TENURE_CHECK(!devices.empty());
  for (DeviceOptions& device : devices) {
    device.store.event_log = &event_log_;
    device.runtime.event_log = &event_log_;
    devices_.push_back(std::make_unique<DeviceStore>(*device.device, device.store, clock_,
                                                     copy_engine_, ids_, events));
    runtimes_.push_back(
        std::make_unique<RuntimeStore>(*device.device, device.runtime, clock_, ids_, events));
    hardware_.push_back(std::move(device.device));
  }
}

Store::~Store() = default;

SessionId Store::OpenSession(const SessionIdentity& identity) {
  const SessionId session = session_ids_.Next();
  for (const auto& device : devices_) device->OpenSession(session, identity);
  for (const auto& runtime : runtimes_) runtime->OpenSession(session, identity);
  NoteSession(EventKind::kSessionOpened, session, identity.program + "/" + identity.instance);
  return session;
}

void Store::RenewSession(SessionId session) {
  for (const auto& device : devices_) device->RenewSession(session);
  for (const auto& runtime : runtimes_) runtime->RenewSession(session);
}

void Store::CloseSession(SessionId session) {
  for (const auto& device : devices_) device->CloseSession(session);
  for (const auto& runtime : runtimes_) runtime->CloseSession(session);
}

void Store::EndSession(SessionId session) {
  for (const auto& device : devices_) device->EndSession(session);
  for (const auto& runtime : runtimes_) runtime->EndSession(session);
  load_requests_.Forget(session);
  acquire_requests_.Forget(session);
  pool_requests_.Forget(session);
  NoteSession(EventKind::kSessionEnded, session, {});
}

void Store::NoteSession(EventKind kind, SessionId session, std::string subject) {
  event_log_.Record(
      {.at = clock_.Now(), .kind = kind, .session = session, .subject = std::move(subject)});
}

void Store::SetSurviving(SessionId session, const std::map<std::string, Surviving>& sizes) {
  for (size_t i = 0; i < devices_.size(); ++i) {
    const auto found = sizes.find(devices_[i]->device_info().name);
    const Surviving size = found == sizes.end() ? Surviving{} : found->second;
    devices_[i]->SetSurviving(session, size.weights);
    runtimes_[i]->SetSurviving(session, size.runtime);
  }
}

StatusOr<std::vector<DeviceStore*>> Store::Named(const std::string& name) const {
  std::vector<DeviceStore*> named;
  for (const auto& device : devices_) {
    if (name.empty() || device->device_info().name == name) named.push_back(device.get());
  }
  if (!named.empty()) return named;
  return Error(Reason::kDeviceNotFound, absl::StrCat("no such device: ", name), {{"device", name}});
}

StatusOr<LoadResult> Store::Load(const LoadRequest& request, const CallLimits& limits) {
  return load_requests_.Run(
      request.session, request.acquire ? request.request_id : "", ParametersOf(request),
      [&] { return LoadOnce(request, limits); },
      [&](const LoadResult& earlier) { return IsLive(request.session, earlier.lease->id); },
      [&](const LoadResult& unread) { (void)Release(request.session, unread.lease->id); },
      [&] { return limits.Check(clock_.Now()); });
}

StatusOr<LoadResult> Store::LoadOnce(const LoadRequest& request, const CallLimits& limits) {
  const Instant started = clock_.Now();
  const Status named = CheckModelName(request.name);
  if (!named.ok()) return Refused(named);
  const StatusOr<std::vector<DeviceStore*>> candidates = Named(request.device);
  if (!candidates.ok()) return Refused(candidates.status());
  StatusOr<OpenCheckpoint> checkpoint = OpenModel(files_, options_.model_roots, request.path);
  if (!checkpoint.ok()) return Refused(checkpoint.status());
  const ContentId content = checkpoint->content;

  const auto nearest = [&](const Layout* layout) {
    if (candidates->size() == 1) return candidates->front();
    std::vector<Proximity> proximities;
    for (const DeviceStore* device : *candidates) {
      proximities.push_back(device->ProximityOf(request.name, content, layout));
    }
    return (*candidates)[ChooseDevice(proximities)];
  };
  TENURE_ASSIGN_OR_RETURN(std::optional<LoadResult> there,
                          nearest(nullptr)->TryWithoutCopy(request, content, started));
  if (there.has_value()) return *std::move(there);
  StatusOr<PreparedModel> model =
      PrepareModel(*std::move(checkpoint), parsed_models_, clock_, started);
  if (!model.ok()) return Refused(model.status());
  DeviceStore* const chosen = nearest(model->layout.get());
  return chosen->Load(request, *std::move(model), limits);
}

Status Store::Refused(const Status& error) {
  const std::optional<ErrorDetail> detail = DetailOf(error);
  const MutexLock lock(mutex_);
  ++refused_loads_[detail.has_value() ? detail->reason : "INTERNAL"];
  return error;
}

std::map<std::string, uint64_t> Store::RefusedLoads() const {
  const MutexLock lock(mutex_);
  return refused_loads_;
}

StatusOr<PreparedModel> Store::Prepare(const std::string& path) {
  const Instant started = clock_.Now();
  TENURE_ASSIGN_OR_RETURN(OpenCheckpoint checkpoint, OpenModel(files_, options_.model_roots, path));
  return PrepareModel(std::move(checkpoint), parsed_models_, clock_, started);
}

StatusOr<ModelView> Store::Inspect(const LoadRequest& request) {
  TENURE_RETURN_IF_ERROR(CheckModelName(request.name));
  TENURE_ASSIGN_OR_RETURN(const std::vector<DeviceStore*> candidates, Named(request.device));
  TENURE_ASSIGN_OR_RETURN(const PreparedModel model, Prepare(request.path));
  ModelView view;
  view.name = request.name;
  view.device = request.device;
  view.path = model.checkpoint.path;
  view.layout = model.layout;
  view.content = model.checkpoint.content;
  view.region_bytes = AlignUp(model.layout->total(), candidates.front()->device_info().granule);
  view.pinned = request.pin;
  return view;
}

StatusOr<UnloadResult> Store::Unload(const std::string& name, Revision revision,
                                     const std::string& device) {
  TENURE_ASSIGN_OR_RETURN(const std::vector<DeviceStore*> candidates, Named(device));
  std::vector<DeviceStore*> having;
  for (DeviceStore* candidate : candidates) {
    if (candidate->GetModel(name, revision).ok() || candidate->ProgressOf(name).has_value()) {
      having.push_back(candidate);
    }
  }
  if (having.size() > 1) {
    return Error(Reason::kInvalidRequest,
                 absl::StrCat("several devices have the model, name one: ", name),
                 {{"model", name}});
  }
  return (having.empty() ? candidates : having).front()->Unload(name, revision);
}

StatusOr<ModelView> Store::GetModel(const std::string& name, Revision revision,
                                    const std::string& device) const {
  TENURE_ASSIGN_OR_RETURN(const std::vector<DeviceStore*> candidates, Named(device));
  StatusOr<ModelView> best = candidates.front()->GetModel(name, revision);
  for (size_t i = 1; i < candidates.size(); ++i) {
    StatusOr<ModelView> view = candidates[i]->GetModel(name, revision);
    if (!view.ok()) continue;
    const bool better =
        !best.ok() || (view->state == RegionState::kActive && best->state != RegionState::kActive);
    if (better) best = std::move(view);
  }
  return best;
}

std::vector<ModelView> Store::Models() const {
  std::vector<ModelView> views;
  for (const auto& device : devices_) {
    std::vector<ModelView> models = device->Models();
    std::move(models.begin(), models.end(), std::back_inserter(views));
  }
  std::stable_sort(views.begin(), views.end(), [](const ModelView& a, const ModelView& b) {
    return std::tie(a.name, a.device, a.revision) < std::tie(b.name, b.device, b.revision);
  });
  return views;
}

std::optional<LoadProgress> Store::ProgressOf(const std::string& name,
                                              const std::string& device) const {
  for (const auto& candidate : devices_) {
    if (!device.empty() && candidate->device_info().name != device) continue;
    if (std::optional<LoadProgress> progress = candidate->ProgressOf(name)) return progress;
  }
  return std::nullopt;
}

StatusOr<GrantedLease> Store::Acquire(SessionId session, const std::string& name,
                                      const std::string& device, std::optional<Duration> ttl,
                                      const std::string& request_id) {
  Digester parameters;
  parameters.Add(name);
  parameters.Add(device);
  parameters.Add(ttl.has_value() ? 1 : 0);
  parameters.Add(static_cast<uint64_t>(ttl.value_or(Duration::zero()).count()));
  const auto acquire = [&]() -> StatusOr<GrantedLease> {
    TENURE_ASSIGN_OR_RETURN(const std::vector<DeviceStore*> candidates, Named(device));
    StatusOr<GrantedLease> lease = candidates.front()->Acquire(session, name, ttl);
    for (size_t i = 1; i < candidates.size(); ++i) {
      if (!HasReason(lease.status(), Reason::kModelNotFound) &&
          !HasReason(lease.status(), Reason::kDeviceLost)) {
        break;
      }
      StatusOr<GrantedLease> other = candidates[i]->Acquire(session, name, ttl);
      if (!HasReason(other.status(), Reason::kModelNotFound)) lease = std::move(other);
    }
    return lease;
  };
  return acquire_requests_.Run(
      session, request_id, parameters.Finish(), acquire,
      [&](const GrantedLease& earlier) { return IsLive(session, earlier.id); },
      [&](const GrantedLease& unread) { (void)Release(session, unread.id); },
      [] { return absl::OkStatus(); });
}

Status Store::Release(SessionId session, LeaseId lease) {
  for (const auto& device : devices_) {
    if (std::optional<Status> released = device->Release(session, lease)) return *released;
  }
  return LeaseNotFound(lease);
}

Status Store::ReleaseLoadRequest(SessionId session, const std::string& request_id) {
  const std::optional<LoadResult> unread = load_requests_.Withdraw(session, request_id);
  if (!unread.has_value()) return absl::OkStatus();
  return Release(session, unread->lease->id);
}

Status Store::ReleaseAcquireRequest(SessionId session, const std::string& request_id) {
  const std::optional<GrantedLease> unread = acquire_requests_.Withdraw(session, request_id);
  if (!unread.has_value()) return absl::OkStatus();
  return Release(session, unread->id);
}

DeviceStore::Renewal Store::Renew(SessionId session, LeaseId lease) {
  for (const auto& device : devices_) {
    if (std::optional<DeviceStore::Renewal> renewal = device->Renew(session, lease)) {
      return *std::move(renewal);
    }
  }
  return {.lease = LeaseNotFound(lease), .generation = {}};
}

StatusOr<ExportId> Store::BeginExport(SessionId session, LeaseId lease, uint32_t first,
                                      uint32_t limit) {
  for (const auto& device : devices_) {
    const std::optional<StatusOr<ExportId>> begun =
        device->BeginExport(session, lease, first, limit);
    if (begun.has_value()) return *begun;
  }
  return LeaseNotFound(lease);
}

Status Store::CheckExport(ExportId id) const {
  for (const auto& device : devices_) {
    if (const std::optional<Status> checked = device->CheckExport(id)) return *checked;
  }
  for (const auto& runtime : runtimes_) {
    if (const std::optional<Status> checked = runtime->CheckExport(id)) return *checked;
  }
  return Error(Reason::kCancelled, "the export has ended");
}

bool Store::EndExport(ExportId id, bool sent) {
  const auto ended = [&](const auto& store) { return store->EndExport(id, sent); };
  return std::any_of(devices_.begin(), devices_.end(), ended) ||
         std::any_of(runtimes_.begin(), runtimes_.end(), ended);
}

bool Store::Unmapped(SessionId session, ShareSerial share) {
  const auto unmapped = [&](const auto& store) { return store->Unmapped(session, share); };
  return std::any_of(devices_.begin(), devices_.end(), unmapped) ||
         std::any_of(runtimes_.begin(), runtimes_.end(), unmapped);
}

bool Store::IsLive(SessionId session, LeaseId lease) const {
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const auto& device) { return device->IsLive(session, lease); });
}

void Store::Tick() {
  for (const auto& device : devices_) device->Tick();
  for (const auto& runtime : runtimes_) runtime->Tick();
  load_requests_.Sweep([this](SessionId session, const LoadResult& reply) {
    return IsLive(session, reply.lease->id);
  });
  acquire_requests_.Sweep(
      [this](SessionId session, const GrantedLease& reply) { return IsLive(session, reply.id); });
  pool_requests_.Sweep(
      [this](SessionId session, const PoolGrant& reply) { return Holds(session, reply); });
}

RegionUse Store::UseBy(SessionId session) const {
  RegionUse all;
  for (const auto& device : devices_) {
    const RegionUse use = device->UseBy(session);
    all.leases += use.leases;
    all.shares += use.shares;
    all.quarantined_shares += use.quarantined_shares;
  }
  for (const auto& runtime : runtimes_) {
    const PoolTable::Use use = runtime->UseBy(session);
    all.leases += use.pools;
    all.shares += use.shares;
    all.quarantined_shares += use.quarantined_shares;
  }
  return all;
}

}  // namespace tenure
