#include "core/store/runtime_store.h"

namespace tenure {

Ledger RuntimeStore::LedgerNow() const {
  Ledger ledger;
  if (!lost_.ok()) {
    ledger.lost = arena_.capacity();
    return ledger;
  }
  ledger.capacity = arena_.capacity();
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    const PoolBytes& bytes = holding.bytes;
    ledger.loading += bytes.coming;
    if (!holding.live) {
      ledger.quarantined += bytes.segments;
      continue;
    }
    ledger.leased += bytes.requested;
    ledger.padding += bytes.blocks - bytes.requested;
    ledger.quarantined += bytes.unanswered;
    ledger.pooled += bytes.free();
  }
  ledger.cached = arena_.cached() + arena_.leaving();
  ledger.unbacked = arena_.unbacked();
  ledger.stranded = arena_.stranded();
  ledger.reserved = arena_.reserved();
  ledger.largest_free = pools_.LargestFree(arena_.available() / options_.segment_size);
  return ledger;
}

PoolView RuntimeStore::ViewOf(PoolId pool) const {
  return {.id = pool,
          .device = device_.info().name,
          .backend = device_.info().backend,
          .device_uuid = device_.info().uuid,
          .size = shape_.size(),
          .segment_size = shape_.segment_size,
          .ttl = times_.lease_ttl};
}

RuntimeStore::Snapshot RuntimeStore::TakeSnapshot() const {
  const MutexLock lock(mutex_);
  Snapshot snapshot{
      .ledger = LedgerNow(),
      .peaks = {.reserved = arena_.peak_reserved(), .allocated = peak_allocated_},
      .cached_segments = arena_.cached_segments(),
      .counters = counters_,
      .waiting = waiters_.size(),
  };
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    snapshot.pools += holding.live;
    snapshot.buffers += holding.buffers;
    snapshot.segments += holding.bytes.segments / shape_.segment_size;
  }
  return snapshot;
}

void RuntimeStore::ForgetPeaks() {
  const MutexLock lock(mutex_);
  arena_.ForgetPeak();
  peak_allocated_ = Allocated();
}

PoolTable::Use RuntimeStore::UseBy(SessionId session) const {
  const MutexLock lock(mutex_);
  return pools_.UseBy(session);
}

Bytes RuntimeStore::Available() const {
  const MutexLock lock(mutex_);
  return lost_.ok() ? arena_.available() : Bytes(0);
}

void RuntimeStore::Validate() const {
  const MutexLock lock(mutex_);
  arena_.Validate();
  pools_.Validate();
  Bytes held;
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    held += holding.bytes.segments + holding.bytes.coming;
  }
  TENURE_CHECK(arena_.claimed() == held);
  if (!lost_.ok()) return;
  const Ledger ledger = LedgerNow();
  TENURE_CHECK(ledger.capacity == ledger.allocated() + ledger.free() + ledger.stranded);
  TENURE_CHECK(ledger.largest_free <= ledger.free());
  TENURE_CHECK(ledger.allocated() == Allocated() && Allocated() <= peak_allocated_);
}

}  // namespace tenure
