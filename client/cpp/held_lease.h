#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "client/cpp/deadline.h"
#include "tenure/memory_kind.h"

namespace tenure::client {

// The device that a lease is on.
struct LeasedDevice {
  std::string name{};  // "host:0"
  MemoryKind memory_kind = MemoryKind::kHost;
  std::string uuid{};
};

// One lease as this process knows it. Live until it is marked lost, and never again after that.
// Thread-safe.
class HeldLease {
 public:
  // `granted_at` is a moment before the daemon granted it.
  HeldLease(uint64_t lease_id, LeasedDevice device, uint64_t region_id, uint64_t region_bytes,
            Duration ttl, Instant granted_at)
      : lease_id_(lease_id),
        device_(std::move(device)),
        region_id_(region_id),
        region_bytes_(region_bytes),
        ttl_(ttl),
        granted_at_(granted_at) {}

  uint64_t lease_id() const { return lease_id_; }
  const LeasedDevice& leased_device() const { return device_; }
  const std::string& device() const { return device_.name; }
  MemoryKind memory_kind() const { return device_.memory_kind; }
  const std::string& device_uuid() const { return device_.uuid; }
  uint64_t region_id() const { return region_id_; }
  uint64_t region_bytes() const { return region_bytes_; }
  Duration ttl() const { return ttl_; }

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // REQUIRES: lost().
  const std::string& lost_reason() const { return lost_reason_; }
  // The first reason stays. REQUIRES: calls do not overlap.
  void MarkLost(std::string_view reason) {
    if (lost()) return;
    lost_reason_ = reason;
    lost_.store(true, std::memory_order_release);
  }

  // Until when the daemon has promised it, if it last renewed the session's leases after
  // `renewed_at`.
  Instant certain_until(Instant renewed_at) const {
    return std::max(granted_at_, renewed_at) + ttl_;
  }

 private:
  const uint64_t lease_id_;
  const LeasedDevice device_;
  const uint64_t region_id_;
  const uint64_t region_bytes_;
  const Duration ttl_;
  const Instant granted_at_;
  std::atomic<bool> lost_ = false;
  std::string lost_reason_;  // written before lost_ is
};

// The leases of one session, from the reply that granted them until their objects are gone.
// Thread-compatible.
class HeldLeases {
 public:
  // Between the two a lease may be granted, and even lost, that is not added yet. Calls nest.
  void BeginGrant() { ++grants_in_flight_; }
  void EndGrant();

  // A lease of which the loss was told already is marked so.
  void Add(std::shared_ptr<HeldLease> lease);
  void Remove(uint64_t lease_id);

  void Lose(uint64_t lease_id, std::string_view reason);
  void LoseAll(std::string_view reason);
  // Those that nobody has promised beyond `now`.
  void LoseOverdue(Instant now, Instant renewed_at, std::string_view reason);

  // Of all of them, lost or not; nullopt if there are none.
  std::optional<Duration> shortest_ttl() const;

 private:
  std::unordered_map<uint64_t, std::shared_ptr<HeldLease>> leases_;
  std::map<Duration, size_t> ttls_;  // of leases_, each with its number
  size_t grants_in_flight_ = 0;
  std::unordered_map<uint64_t, std::string> lost_early_;  // empty while no grant is in flight
};

}  // namespace tenure::client
