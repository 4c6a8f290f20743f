#include "core/store/device_store.h"

namespace tenure {

// What runs on the Device may never return: nobody waits for it, and what it holds stays as it is.
void DeviceStore::Lose(const Status& reason, Outbox& outbox) {
  lost_ = reason;
  for (const auto& job : jobs_) {
    job->Abandon(reason);
    for (LoadWaiter* waiter : job->waiters) waiter->result = reason;
    job->waiters.clear();
    job->done.NotifyAll();
  }
  LoseExports(reason, outbox);
  const std::vector<Lease> leases = leases_.Expire(kNever);
  counters_.leases_lost += leases.size();
  for (const Lease& lease : leases) {
    // With the first of its leases, a Region that is not to be retained may have gone.
    if (regions_.Find(lease.region) != nullptr) UseChanged(lease.region);
    Note(EventKind::kLeaseLost, lease.region, lease.session);
  }
  outbox.AddLost(leases, Reason::kDeviceLost);

  for (const Region* region : regions_.All()) {
    if (region->state == RegionState::kLoading) continue;
    models_.ClearCurrent(region->id);
    regions_.Transition(region->id, RegionEvent::kLose);
  }
  Changed();
  Note({.kind = EventKind::kDeviceLost,
        .bytes = arena_.capacity(),
        .detail = std::string(reason.message())});
}

Status DeviceStore::Lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

}  // namespace tenure
