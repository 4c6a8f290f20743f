#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

#include "core/store/device_store.h"

namespace tenure {
namespace {

// How often a waiting call looks whether its caller is still there.
constexpr Duration kLookAround = std::chrono::milliseconds(20);

}  // namespace

Proximity DeviceStore::ProximityOf(const std::string& name, const ContentId& content,
                                   const Layout* layout) const {
  const MutexLock lock(mutex_);
  Proximity proximity{.room = arena_.available(), .serving = lost_.ok()};
  for (const Region* region : regions_.All()) {
    if (region->disposable()) proximity.room += region->bytes;
  }
  bool online = FindJob(name, content) != nullptr;
  const auto nearer = [&](Nearness nearness) {
    proximity.nearness = std::min(proximity.nearness, nearness);
  };
  if (online) nearer(Nearness::kResident);
  for (const Region* region : regions_.WithContent(content)) {
    const bool mine = models_.OfRegion(region->id)->name == name;
    if (region->state == RegionState::kRetained) nearer(Nearness::kRetainedContent);
    if (region->state != RegionState::kRetained && mine) nearer(Nearness::kResident);
    online = online || (region->state == RegionState::kActive && mine);
  }
  if (layout != nullptr && FindAdoptable(*layout) != nullptr)
    nearer(Nearness::kRetainedArchitecture);
  if (cordoned_ && !online) proximity.serving = false;
  return proximity;
}

StatusOr<std::optional<LoadResult>> DeviceStore::TryWithoutCopy(const LoadRequest& request,
                                                                const ContentId& content,
                                                                Instant started) {
  const Instant opened = clock_.Now();
  const MutexLock lock(mutex_);
  return BringWithoutCopy(request, content,
                          LoadPhases{.open = opened - started, .total = opened - started});
}

StatusOr<std::optional<LoadResult>> DeviceStore::BringWithoutCopy(const LoadRequest& request,
                                                                  const ContentId& content,
                                                                  const LoadPhases& phases) {
  TENURE_RETURN_IF_ERROR(lost_);
  const Region* found = nullptr;
  for (const Region* region : regions_.WithContent(content)) {
    const bool mine = models_.OfRegion(region->id)->name == request.name;
    if (region->state == RegionState::kRetained ? (found == nullptr || mine) : mine) found = region;
    if (found == region && region->state == RegionState::kActive) break;
  }
  if (found == nullptr || (cordoned_ && found->state != RegionState::kActive)) return std::nullopt;

  const RegionId id = found->id;
  LoadResult result;
  result.reuse = found->state == RegionState::kRetained ? Reuse::kRevived : Reuse::kResident;
  Model model = *models_.OfRegion(id);
  model.source = request.path;
  model.pinned = request.pin;
  model.retain_ttl = request.retain_ttl;
  if (found->state != RegionState::kActive) {
    model.name = request.name;
    model.revision = models_.RevisionFor(request.name, content);
  }
  if (request.acquire) {
    TENURE_ASSIGN_OR_RETURN(result.lease, Grant(request.session, model, request.lease_ttl));
  }
  if (found->state != RegionState::kActive) {
    regions_.Transition(id, RegionEvent::kRestore);
    leases_.CancelRecalls(id);
  }
  models_.Assign(std::move(model));
  MakeCurrent(id, content);
  UseChanged(id);
  result.segments_reused = static_cast<uint32_t>(found->segments.size());
  result.model = ViewOf(*models_.OfRegion(id));
  result.phases = phases;
  CountLoad(request.session, id, result);
  if (result.lease.has_value()) Note(EventKind::kLeaseGranted, id, request.session);
  return result;
}

void DeviceStore::MakeCurrent(RegionId region, const ContentId& content) {
  const Model* previous = models_.Current(models_.OfRegion(region)->name);
  if (previous != nullptr) TakeOffline(previous->region);
  models_.SetCurrent(region, content);
  Changed();
}

void DeviceStore::CountLoad(SessionId session, RegionId region, const LoadResult& result) {
  const auto reuse = static_cast<size_t>(result.reuse);
  ++counters_.loads[reuse];
  counters_.load_durations[reuse].Record(result.phases.total);
  if (result.reuse > Reuse::kRevived) {
    for (size_t i = 0; i < kLoadPhases.size(); ++i) {
      counters_.phase_durations[i].Record(result.phases.*kLoadPhases[i].second);
    }
  }
  counters_.copied_bytes += result.copied.count();
  Note({.kind = EventKind::kLoaded,
        .session = session,
        .subject = models_.FullNameOf(region),
        .bytes = regions_.Find(region)->bytes,
        .took = result.phases.total,
        .detail = std::string(ReuseName(result.reuse))});
}

std::shared_ptr<LoadJob> DeviceStore::FindJob(const std::string& name,
                                              const ContentId& content) const {
  for (const std::shared_ptr<LoadJob>& job : jobs_) {
    const bool equal = job->request.name == name && job->model.checkpoint.content == content;
    if (equal && !job->abandoned.has_value()) return job;
  }
  return nullptr;
}

StatusOr<LoadResult> DeviceStore::Load(const LoadRequest& request, PreparedModel model,
                                       const CallLimits& limits) {
  const MutexLock lock(mutex_);
  if (closing_) return Error(Reason::kShuttingDown, "the daemon is stopping");
  // Between the first look and this one, an equal load may have ended.
  TENURE_ASSIGN_OR_RETURN(std::optional<LoadResult> there,
                          BringWithoutCopy(request, model.checkpoint.content,
                                           LoadPhases{.open = model.open,
                                                      .parse = model.parse,
                                                      .total = clock_.Now() - model.started}));
  if (there.has_value()) return *std::move(there);

  std::shared_ptr<LoadJob> job = FindJob(request.name, model.checkpoint.content);
  if (job == nullptr && cordoned_) {
    ++counters_.failed_loads[std::string(ReasonName(Reason::kCordoned))];
    return RefuseCordoned(request.device, arena_.RegionBytes(model.layout->total()));
  }
  if (job == nullptr) {
    job = std::make_shared<LoadJob>(request, std::move(model));
    jobs_.push_back(job);
    work_.NotifyOne();
    Changed();
  }
  LoadWaiter waiter{.request = request, .result = {}};
  job->waiters.push_back(&waiter);
  return Await(job, waiter, limits);
}

StatusOr<LoadResult> DeviceStore::Await(const std::shared_ptr<LoadJob>& job, LoadWaiter& waiter,
                                        const CallLimits& limits) {
  while (true) {
    job->done.WaitFor(mutex_, kLookAround);
    if (waiter.result.has_value()) return *std::move(waiter.result);
    Status over = limits.Check(clock_.Now());
    if (over.ok()) continue;
    if (HasReason(over, Reason::kDeadline) && AwaitsRoom(*job)) {
      over = RefuseRoom(arena_.RegionBytes(job->model.layout->total()));
    }
    std::erase(job->waiters, &waiter);
    if (job->waiters.empty()) job->Abandon(over);
    changed_.NotifyAll();
    return over;
  }
}

}  // namespace tenure
