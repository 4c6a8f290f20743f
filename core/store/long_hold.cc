#include "core/store/long_hold.h"

#include <algorithm>
#include <cmath>

#include "core/store/device_store.h"
#include "core/store/runtime_store.h"

namespace tenure {
namespace {

constexpr uint64_t kFewest = 20;
constexpr double kMost = 0.99;
constexpr int kFactor = 10;
// What is held for less is no leak, however short others are.
constexpr Duration kLeast = std::chrono::minutes(1);
constexpr Duration kWithoutHistory = std::chrono::hours(1);

}  // namespace

UsualHold::UsualHold(const HoldDurations& released) : too_long(kWithoutHistory) {
  if (released.count() < kFewest) return;
  const double seconds = released.Quantile(kMost);
  usual = std::isfinite(seconds)
              ? std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds))
              : std::chrono::duration_cast<Duration>(
                    std::chrono::duration<double>(HoldDurations::kBounds.back()));
  too_long = std::max(kLeast, usual * kFactor);
}

std::vector<LongHold> DeviceStore::LongHolds() const {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  const UsualHold usual(lease_holds_);
  std::vector<LongHold> holds;
  for (const Lease& lease : leases_.LiveSince(now - usual.too_long)) {
    holds.push_back({.device = device_.info().name,
                     .arena = "weights",
                     .kind = "lease",
                     .subject = models_.FullNameOf(lease.region),
                     .session = lease.session,
                     .identity = identities_.at(lease.session),
                     .bytes = regions_.Find(lease.region)->bytes,
                     .held = now - lease.granted,
                     .usual = usual.usual});
  }
  return holds;
}

std::vector<LongHold> RuntimeStore::LongHolds() const {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  std::vector<UsualHold> usual;
  for (const HoldDurations& released : pools_.holds()) usual.emplace_back(released);
  std::vector<LongHold> holds;
  for (const PoolMap& pool : pools_.Maps()) {
    const auto identity = identities_.find(pool.session);
    if (!pool.live || identity == identities_.end()) continue;
    for (const PoolMap::BufferPlace& place : pool.buffers) {
      const auto kind = static_cast<size_t>(place.buffer.kind);
      const Duration held = now - place.since;
      if (held < usual[kind].too_long) continue;
      holds.push_back({.device = device_.info().name,
                       .arena = "runtime",
                       .kind = std::string(BufferKindName(place.buffer.kind)),
                       .subject = std::to_string(place.buffer.id.value()),
                       .session = pool.session,
                       .identity = identity->second,
                       .bytes = place.buffer.requested,
                       .held = held,
                       .usual = usual[kind].usual});
    }
  }
  std::sort(holds.begin(), holds.end(),
            [](const LongHold& a, const LongHold& b) { return a.held > b.held; });
  return holds;
}

}  // namespace tenure
