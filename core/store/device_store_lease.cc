#include <absl/strings/str_cat.h>
#include <utility>

#include "core/store/device_store.h"

namespace tenure {

void DeviceStore::UsesChanged(const std::vector<RegionId>& regions) {
  for (const RegionId region : regions) UseChanged(region);
}

void DeviceStore::UseChanged(RegionId id) {
  const RegionUse use = leases_.UseOf(id);
  const Region* region = regions_.Find(id);
  TENURE_CHECK(region != nullptr);
  const bool last_lease_ended = region->leases > 0 && use.leases == 0;
  const Instant now = clock_.Now();
  regions_.Update(id, [&](Region& changed) {
    changed.leases = use.leases;
    changed.shares = use.shares;
    changed.quarantined_shares = use.quarantined_shares;
    if (last_lease_ended) changed.unused_since = now;
  });
  if (last_lease_ended && region->state == RegionState::kDraining) {
    regions_.Transition(id, RegionEvent::kRetire);
    StartRetention(id);
  }
  Changed();
}

StatusOr<GrantedLease> DeviceStore::Grant(SessionId session, const Model& model,
                                          std::optional<Duration> ttl) {
  const Region& region = *regions_.Find(model.region);
  TENURE_ASSIGN_OR_RETURN(const Lease lease,
                          leases_.Grant(session, region.id, region.generation,
                                        ttl.value_or(times_.default_lease_ttl), clock_.Now()));
  ++counters_.leases_granted;
  return GrantedLease{.id = lease.id,
                      .name = model.name,
                      .revision = model.revision,
                      .device = device_.info().name,
                      .backend = device_.info().backend,
                      .device_uuid = device_.info().uuid,
                      .region = region.id,
                      .generation = region.generation,
                      .architecture = region.layout->key(),
                      .region_bytes = region.bytes,
                      .segment_count = static_cast<uint32_t>(region.segments.size()),
                      .ttl = lease.ttl};
}

StatusOr<GrantedLease> DeviceStore::Acquire(SessionId session, const std::string& name,
                                            std::optional<Duration> ttl) {
  const MutexLock lock(mutex_);
  if (const Model* model = models_.Current(name)) {
    StatusOr<GrantedLease> lease = Grant(session, *model, ttl);
    if (lease.ok()) {
      UseChanged(model->region);
      Note(EventKind::kLeaseGranted, model->region, session);
    }
    return lease;
  }
  for (const auto& job : jobs_) {
    if (job->request.name != name || job->abandoned.has_value()) continue;
    return Error(Reason::kModelUnavailable, absl::StrCat("the model is still loading: ", name),
                 {{"model", name}});
  }
  const Model* model = FindModel(name, Revision());
  if (model == nullptr) return ModelNotFound(name, Revision());
  TENURE_RETURN_IF_ERROR(lost_);
  if (regions_.Find(model->region)->state == RegionState::kDraining) {
    return Error(Reason::kModelDraining,
                 absl::StrCat("the model is offline and drains; load it to bring it back: ", name),
                 {{"model", name}});
  }
  return Error(
      Reason::kModelNotFound,
      absl::StrCat("the model is offline; its memory is retained, load it to use it again: ", name),
      {{"model", name}});
}

std::optional<Status> DeviceStore::Release(SessionId session, LeaseId lease) {
  const MutexLock lock(mutex_);
  if (!leases_.RegionOf(lease).valid()) return std::nullopt;
  std::vector<RegionId> touched;
  const StatusOr<Lease> held = leases_.Find(session, lease);
  Status released = leases_.Release(session, lease, touched);
  UsesChanged(touched);
  if (released.ok()) {
    ++counters_.leases_released;
    lease_holds_.Record(clock_.Now() - held->granted);
    for (const RegionId region : touched) Note(EventKind::kLeaseReleased, region, session);
  }
  return released;
}

std::optional<DeviceStore::Renewal> DeviceStore::Renew(SessionId session, LeaseId lease) {
  const MutexLock lock(mutex_);
  const Region* region = regions_.Find(leases_.RegionOf(lease));
  if (region == nullptr) return std::nullopt;
  return Renewal{.lease = leases_.RenewLease(session, lease, clock_.Now()),
                 .generation = region->generation};
}

bool DeviceStore::IsLive(SessionId session, LeaseId lease) const {
  const MutexLock lock(mutex_);
  return leases_.Find(session, lease).ok();
}

}  // namespace tenure
