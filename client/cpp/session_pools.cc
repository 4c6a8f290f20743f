#include "client/cpp/session_pools.h"

#include <algorithm>

namespace tenure::client {

std::shared_ptr<PoolMapping> SessionPools::FindMapping(uint64_t pool_id) const {
  const auto found = pools_.find(pool_id);
  return found == pools_.end() ? nullptr : found->second.mapping;
}

void SessionPools::Add(const PoolSpec& spec, std::shared_ptr<PoolMapping> mapping) {
  Pool& pool = pools_[spec.pool_id];
  pool.spec = spec;
  pool.mapping = std::move(mapping);
}

void SessionPools::Renew(const PoolSpec& spec) {
  const auto found = pools_.find(spec.pool_id);
  if (found == pools_.end()) return;
  found->second.overdue = false;
  found->second.spec.granted_at = std::max(found->second.spec.granted_at, spec.granted_at);
}

bool SessionPools::Listen(uint64_t pool_id, std::weak_ptr<PoolListener> listener) {
  const auto found = pools_.find(pool_id);
  if (found == pools_.end() || found->second.lost || found->second.overdue) return false;
  std::vector<std::weak_ptr<PoolListener>>& listeners = found->second.listeners;
  std::erase_if(listeners, [](const auto& each) { return each.expired(); });
  listeners.push_back(std::move(listener));
  return true;
}

void SessionPools::AddSegment(const Segment& segment) {
  pools_.at(segment.pool_id).segments[segment.offset] = {
      .state = State::kMapped, .share_serial = segment.share_serial, .bytes = segment.bytes};
  shares_[segment.share_serial] = {segment.pool_id, segment.offset};
}

absl::StatusOr<size_t> SessionPools::PutMappedFirst(uint64_t pool_id,
                                                    std::vector<uint64_t>& offsets) const {
  const auto pool = pools_.find(pool_id);
  if (pool == pools_.end()) return size_t{0};
  bool leaving = false;
  const auto absent = std::stable_partition(offsets.begin(), offsets.end(), [&](uint64_t offset) {
    const auto found = pool->second.segments.find(offset);
    if (found == pool->second.segments.end()) return false;
    leaving |= found->second.state != State::kMapped;
    return true;
  });
  if (leaving) return absl::UnavailableError("memory of the pool that is just being unmapped");
  return static_cast<size_t>(absent - offsets.begin());
}

std::optional<SessionPools::Segment> SessionPools::Take(uint64_t pool_id, uint64_t offset) {
  const auto pool = pools_.find(pool_id);
  if (pool == pools_.end()) return std::nullopt;
  const auto found = pool->second.segments.find(offset);
  if (found == pool->second.segments.end() || found->second.state != State::kMapped) {
    return std::nullopt;
  }
  found->second.state = State::kUnmapping;
  shares_.erase(found->second.share_serial);
  return Segment{.pool_id = pool_id,
                 .device = pool->second.spec.device.name,
                 .offset = offset,
                 .share_serial = found->second.share_serial,
                 .bytes = found->second.bytes,
                 .mapping = pool->second.mapping};
}

std::optional<SessionPools::Segment> SessionPools::TakeShare(uint64_t share_serial) {
  const auto found = shares_.find(share_serial);
  if (found == shares_.end()) return std::nullopt;
  const auto [pool_id, offset] = found->second;
  return Take(pool_id, offset);
}

std::vector<SessionPools::Segment> SessionPools::TakeAll() {
  std::vector<Segment> taken;
  for (const auto& [id, pool] : pools_) {
    for (const auto& [offset, entry] : pool.segments) {
      if (auto segment = Take(id, offset)) taken.push_back(*std::move(segment));
    }
  }
  return taken;
}

std::vector<uint64_t> SessionPools::LeftIn(uint64_t pool_id) const {
  std::vector<uint64_t> left;
  const auto pool = pools_.find(pool_id);
  if (pool == pools_.end() || !pool->second.lost || !Living(pool->second).empty()) return left;
  for (const auto& [offset, entry] : pool->second.segments) {
    if (entry.state == State::kMapped) left.push_back(offset);
  }
  return left;
}

void SessionPools::FinishUnmap(const Segment& taken, const absl::Status& status) {
  Pool& pool = pools_.at(taken.pool_id);
  if (status.ok()) {
    pool.segments.erase(taken.offset);
  } else {
    pool.segments.at(taken.offset).state = State::kStuck;
  }
}

SessionPools::Listeners SessionPools::Living(const Pool& pool) {
  Listeners living;
  for (const std::weak_ptr<PoolListener>& each : pool.listeners) {
    if (std::shared_ptr<PoolListener> listener = each.lock()) {
      living.push_back({std::move(listener), pool.spec.device.name, pool.mapping->waits()});
    }
  }
  return living;
}

SessionPools::Listeners SessionPools::ListenersOf(uint64_t pool_id) const {
  const auto found = pools_.find(pool_id);
  return found == pools_.end() ? Listeners() : Living(found->second);
}

SessionPools::Listeners SessionPools::AllListeners() const {
  Listeners all;
  for (const auto& [id, pool] : pools_) {
    Listeners living = Living(pool);
    std::move(living.begin(), living.end(), std::back_inserter(all));
  }
  return all;
}

SessionPools::Listeners SessionPools::Lose(uint64_t pool_id) {
  const auto found = pools_.find(pool_id);
  if (found == pools_.end()) return {};
  found->second.lost = true;
  return Living(found->second);
}

SessionPools::Listeners SessionPools::LoseAll() {
  for (auto& [id, pool] : pools_) pool.lost = true;
  return AllListeners();
}

SessionPools::Listeners SessionPools::LoseOverdue(Instant now, Instant renewed_at) {
  Listeners overdue;
  for (auto& [id, pool] : pools_) {
    const Instant promised_at = std::max(pool.spec.granted_at, renewed_at);
    if (pool.lost || pool.overdue || now < promised_at + pool.spec.ttl) continue;
    pool.overdue = true;
    Listeners living = Living(pool);
    std::move(living.begin(), living.end(), std::back_inserter(overdue));
  }
  return overdue;
}

std::vector<std::shared_ptr<PoolMapping>> SessionPools::TakeMappings(const std::string& device) {
  std::vector<std::shared_ptr<PoolMapping>> mappings;
  for (auto& [id, pool] : pools_) {
    if (pool.spec.device.name == device) mappings.push_back(std::move(pool.mapping));
  }
  return mappings;
}

std::map<std::string, uint64_t> SessionPools::mapped_bytes_by_device() const {
  std::map<std::string, uint64_t> bytes;
  for (const auto& [id, pool] : pools_) {
    for (const auto& [offset, entry] : pool.segments) bytes[pool.spec.device.name] += entry.bytes;
  }
  return bytes;
}

}  // namespace tenure::client
