#include "core/store/device_store.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

namespace tenure {

DeviceStore::DeviceStore(Device& device, const DeviceStoreOptions& options, const Clock& clock,
                         const CopyEngine& copy_engine, IdSequences& ids, SessionEvents& events)
    : device_(device),
      options_(options),
      clock_(clock),
      copy_engine_(copy_engine),
      events_(events),
      export_ids_(ids.exports),
      arena_({.capacity = options.weights_capacity,
              .segment_size = options.segment_size,
              .granule = device.info().granule,
              .single_segment = options.single_segment}),
      regions_(ids.regions),
      leases_(ids.leases, ids.shares),
      times_(options) {
  TENURE_CHECK(options.concurrent_loads >= 1);
  for (int i = 0; i < options.concurrent_loads; ++i) {
    threads_.emplace_back([this] { RunLoads(); });
  }
  threads_.emplace_back([this] { RunExports(); });
  threads_.emplace_back([this] { RunDestroyer(); });
}

DeviceStore::~DeviceStore() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    const Status reason = Error(Reason::kShuttingDown, "the daemon is stopping");
    for (const auto& job : jobs_) job->Abandon(reason);
    work_.NotifyAll();
    export_work_.NotifyAll();
    leaving_.Close();
    changed_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void DeviceStore::OpenSession(SessionId session, const SessionIdentity& identity) {
  const MutexLock lock(mutex_);
  leases_.OpenSession(session);
  identities_.emplace(session, identity);
}

void DeviceStore::RenewSession(SessionId session) {
  const MutexLock lock(mutex_);
  leases_.Renew(session, clock_.Now());
}

void DeviceStore::CloseSession(SessionId session) {
  const MutexLock lock(mutex_);
  UsesChanged(leases_.CloseSession(session));
}

void DeviceStore::EndSession(SessionId session) {
  const MutexLock lock(mutex_);
  UsesChanged(leases_.EndSession(session));
  identities_.erase(session);
  SetSurvivor(session, Bytes(0));
}

void DeviceStore::SetSurviving(SessionId session, Bytes size) {
  const MutexLock lock(mutex_);
  if (options_.capacity_includes_survivors && identities_.contains(session)) {
    SetSurvivor(session, size);
  }
}

void DeviceStore::SetSurvivor(SessionId session, Bytes size) {
  if (!survivors_.Set(session, size, arena_.capacity())) return;
  arena_.SetSurviving(survivors_.Sum());
  Changed();
}

void DeviceStore::CountPinned() {
  arena_.SetPinned(device_.stranded(SegmentUse::kWeights).value_or(Bytes(0)));
}

void DeviceStore::Changed() {
  changes_.fetch_add(1, std::memory_order_release);
  changed_.NotifyAll();
}

void DeviceStore::TakeOffline(RegionId region) {
  const std::string model = models_.FullNameOf(region);
  const Bytes bytes = regions_.Find(region)->bytes;
  models_.ClearCurrent(region);
  if (regions_.Find(region)->leases > 0) {
    regions_.Transition(region, RegionEvent::kDrain);
  } else {
    regions_.Transition(region, RegionEvent::kRetire);
    StartRetention(region);
  }
  Changed();
  Note({.kind = EventKind::kOffline, .subject = model, .bytes = bytes});
}

void DeviceStore::StartRetention(RegionId id) {
  const Instant now = clock_.Now();
  const Duration ttl = models_.OfRegion(id)->retain_ttl.value_or(times_.retain_ttl);
  regions_.Update(id, [&](Region& region) {
    region.unused_since = now;
    region.expires = After(now, ttl);
  });
  const Region& region = *regions_.Find(id);
  if (ttl == Duration::zero() && region.disposable() && region.shares == 0) {
    Reclaim(id, ReclaimCause::kExpired);
  }
}

void DeviceStore::Reclaim(RegionId region, ReclaimCause cause) {
  TENURE_CHECK(regions_.Find(region)->disposable() && regions_.Find(region)->shares == 0);
  Event reclaimed{.kind = EventKind::kReclaimed,
                  .subject = models_.FullNameOf(region),
                  .bytes = regions_.Find(region)->bytes,
                  .detail = std::string(ReclaimCauseName(cause))};
  arena_.Return(regions_.Transition(region, RegionEvent::kReclaim), Bytes(0), clock_.Now());
  models_.Erase(region);
  ++counters_.reclaims[static_cast<size_t>(cause)];
  Changed();
  Note(std::move(reclaimed));
}

void DeviceStore::Tick() {
  const Instant now = clock_.Now();
  Outbox outbox(events_);
  const Status served = device_.Look();
  Duration answer_within{};
  {
    const MutexLock lock(mutex_);
    if (!served.ok() && lost_.ok()) Lose(served, outbox);
    const Bytes stranded = arena_.stranded();
    CountPinned();
    if (arena_.stranded() != stranded) Changed();

    const std::vector<Lease> expired = leases_.Expire(now);
    counters_.leases_expired += expired.size();
    for (const Lease& lease : expired) {
      // With the first of its leases, a Region that is not to be retained may have gone.
      if (regions_.Find(lease.region) != nullptr) UseChanged(lease.region);
      Note(EventKind::kLeaseExpired, lease.region, lease.session);
    }
    outbox.AddLost(expired, Reason::kLeaseExpired);

    const std::vector<RegionId> unanswered = leases_.EndRecalls(now);
    counters_.recalls_unanswered += unanswered.size();
    UsesChanged(unanswered);
    for (const RegionId region : unanswered) Note(EventKind::kRecallUnanswered, region);

    for (const RegionId region : regions_.Expired(now)) {
      if (regions_.Find(region)->shares == 0) {
        Reclaim(region, ReclaimCause::kExpired);
      } else {
        SendRecalls(region, outbox);
      }
    }
    answer_within = times_.recall_wait;
    if (times_.cache_ttl != kForever) {
      leaving_.Add(arena_.TakeCachedBefore(now - times_.cache_ttl));
    }
  }
  outbox.Send(answer_within);
}

void DeviceStore::SendRecalls(RegionId region, Outbox& outbox) {
  std::vector<Share> recalled = leases_.Recall(region, After(clock_.Now(), times_.recall_wait));
  counters_.recalls_sent += recalled.size();
  for (const Share& share : recalled) Note(EventKind::kRecalled, region, share.session);
  outbox.AddRecalls(std::move(recalled));
}

void DeviceStore::RunDestroyer() {
  const MutexLock lock(mutex_);
  while (const std::optional<Bytes> destroyed = leaving_.DestroyNext(mutex_)) {
    arena_.Left(*destroyed);
    CountPinned();
    Changed();
    Note({.kind = EventKind::kSegmentsDestroyed, .bytes = *destroyed});
  }
}

StatusOr<UnloadResult> DeviceStore::Unload(const std::string& name, Revision revision) {
  const MutexLock lock(mutex_);
  TENURE_RETURN_IF_ERROR(lost_);
  bool stopped_load = false;
  if (!revision.valid()) {
    for (const auto& job : jobs_) {
      if (job->request.name != name) continue;
      job->Abandon(Error(Reason::kModelUnavailable, "the model was unloaded while it was loading"));
      stopped_load = true;
    }
    changed_.NotifyAll();
  }
  const Model* model = FindModel(name, revision);
  if (model == nullptr || regions_.Find(model->region)->state == RegionState::kLoading) {
    if (stopped_load) return UnloadResult{};
    return ModelNotFound(name, revision);
  }
  const RegionId region = model->region;
  const Bytes bytes = regions_.Find(region)->bytes;
  if (regions_.Find(region)->state == RegionState::kActive) TakeOffline(region);

  const Region* left = regions_.Find(region);
  UnloadResult result;
  if (left == nullptr) {
    result.freed = bytes;
    return result;
  }
  result.state = left->state;
  result.holders = HoldersOf(region);
  (left->state == RegionState::kDraining ? result.deferred : result.retained) = bytes;
  return result;
}

void DeviceStore::WaitUntilQuiet() {
  const MutexLock lock(mutex_);
  while (!jobs_.empty() || !arena_.leaving().zero()) changed_.Wait(mutex_);
}

}  // namespace tenure
