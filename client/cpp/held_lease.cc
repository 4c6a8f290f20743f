#include "client/cpp/held_lease.h"

#include <utility>

namespace tenure::client {

void HeldLeases::EndGrant() {
  if (--grants_in_flight_ == 0) lost_early_.clear();
}

void HeldLeases::Add(std::shared_ptr<HeldLease> lease) {
  if (const auto early = lost_early_.find(lease->lease_id()); early != lost_early_.end()) {
    lease->MarkLost(early->second);
    lost_early_.erase(early);
  }
  ++ttls_[lease->ttl()];
  leases_.emplace(lease->lease_id(), std::move(lease));
}

void HeldLeases::Remove(uint64_t lease_id) {
  const auto entry = leases_.find(lease_id);
  if (entry == leases_.end()) return;
  const auto ttl = ttls_.find(entry->second->ttl());
  if (--ttl->second == 0) ttls_.erase(ttl);
  leases_.erase(entry);
}

void HeldLeases::Lose(uint64_t lease_id, std::string_view reason) {
  if (const auto entry = leases_.find(lease_id); entry != leases_.end()) {
    entry->second->MarkLost(reason);
  } else if (grants_in_flight_ > 0) {
    lost_early_.emplace(lease_id, reason);
  }
}

void HeldLeases::LoseAll(std::string_view reason) {
  for (auto& [id, lease] : leases_) lease->MarkLost(reason);
}

void HeldLeases::LoseOverdue(Instant now, Instant renewed_at, std::string_view reason) {
  for (auto& [id, lease] : leases_) {
    if (now >= lease->certain_until(renewed_at)) lease->MarkLost(reason);
  }
}

std::optional<Duration> HeldLeases::shortest_ttl() const {
  if (ttls_.empty()) return std::nullopt;
  return ttls_.begin()->first;
}

}  // namespace tenure::client
