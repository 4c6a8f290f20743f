#include "core/store/memory_map.h"

#include <algorithm>

#include "core/store/device_store.h"
#include "core/store/runtime_store.h"

namespace tenure {
namespace {

std::vector<SegmentRun> RunsOf(const std::vector<Segment>& segments) {
  std::vector<SegmentRun> runs;
  for (const Segment& segment : segments) {
    const Bytes size = segment.size();
    if (runs.empty() || runs.back().size != size) runs.push_back({.size = size, .count = 0});
    ++runs.back().count;
  }
  return runs;
}

std::vector<SegmentRun> CachedRuns(const SegmentArena& arena) {
  std::vector<SegmentRun> runs;
  for (const auto& [size, count] : arena.CachedSizes()) {
    runs.push_back({.size = size, .count = count});
  }
  return runs;
}

Duration Until(Instant when, Instant now) { return std::max(Duration::zero(), when - now); }

}  // namespace

RegionMap DeviceStore::MapOf(const Region& region, Instant now) const {
  RegionMap map{.id = region.id,
                .model = {},
                .revision = {},
                .pinned = false,
                .state = region.state,
                .holding = region.holding(),
                .generation = region.generation,
                .layout = region.layout,
                .bytes = region.bytes,
                .segments = RunsOf(region.segments),
                .expires_in = {},
                .holds = {}};
  if (const Model* const model = models_.OfRegion(region.id)) {
    map.model = model->name;
    map.revision = model->revision;
    map.pinned = model->pinned;
  }
  const bool expiring =
      region.state == RegionState::kRetained || region.state == RegionState::kEmpty;
  if (expiring && region.expires != kNever) map.expires_in = Until(region.expires, now);
  for (const SessionUse& use : leases_.SessionsUsing(region.id)) {
    const std::optional<Instant> expires = leases_.LastExpiry(region.id, use.session);
    map.holds.push_back({.session = use.session,
                         .leases = use.leases,
                         .shared = use.shared,
                         .quarantined = use.quarantined,
                         .expires_in = {}});
    if (expires.has_value() && *expires != kNever) {
      map.holds.back().expires_in = Until(*expires, now);
    }
  }
  return map;
}

WeightsMap DeviceStore::TakeMap() const {
  WeightsMap map;
  map.foreign = device_.foreign();
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  map.ledger = LedgerNow();
  map.cached = CachedRuns(arena_);
  map.leaving = arena_.leaving();
  map.lost = lost_;
  map.counters = counters_;
  const std::vector<const Region*> regions = regions_.All();
  map.regions.reserve(regions.size());
  for (const Region* const region : regions) {
    const RegionMap& mapped = map.regions.emplace_back(MapOf(*region, now));
    for (const RegionMap::Hold& hold : mapped.holds) {
      map.sessions.try_emplace(hold.session, identities_.at(hold.session));
    }
  }
  return map;
}

RuntimeMap RuntimeStore::TakeMap() const {
  RuntimeMap map;
  const MutexLock lock(mutex_);
  map.taken = clock_.Now();
  map.ledger = LedgerNow();
  map.pools = pools_.Maps();
  map.cached = CachedRuns(arena_);
  map.leaving = arena_.leaving();
  map.buffers_granted = counters_.buffers_granted;
  map.buffers_released = counters_.buffers_released;
  map.waiting = waiters_.size();
  for (const PoolMap& pool : map.pools) {
    // A Pool may outlive its Session while its memory is being exported.
    const auto identity = identities_.find(pool.session);
    if (identity != identities_.end()) map.sessions.insert(*identity);
  }
  return map;
}

}  // namespace tenure
