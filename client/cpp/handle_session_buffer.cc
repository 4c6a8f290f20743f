// Single buffers of a HandleSession's pools. The segments that they lie in are the daemon's to
// recall, unlike those that were granted whole.

#include "client/cpp/handle_session.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<PoolMapping>> HandleSession::MapBuffer(
    const PoolSpec& pool, uint64_t offset, uint64_t bytes, Deadline deadline,
    const std::stop_token& cancel) {
  auto fetch = std::make_shared<PoolFetch>();
  fetch->pool = pool;
  fetch->of_buffer = true;
  for (uint64_t at = offset - offset % pool.segment_bytes; at < offset + bytes;
       at += pool.segment_bytes) {
    fetch->offsets.push_back(at);
  }
  return Await(fetch, deadline, cancel);
}

void HandleSession::BeginPoolFetch(const std::shared_ptr<PoolFetch>& fetch, absl::Status status) {
  if (status.ok()) {
    const std::lock_guard lock(mutex_);
    const absl::StatusOr<size_t> mapped =
        pools_.PutMappedFirst(fetch->pool.pool_id, fetch->offsets);
    status = mapped.status();
    if (mapped.ok() && fetch->of_buffer) {  // by another buffer, whose they stay
      fetch->offsets.erase(fetch->offsets.begin(),
                           fetch->offsets.begin() + static_cast<ptrdiff_t>(*mapped));
    } else if (mapped.ok()) {  // for buffers that are no more
      fetch->mapped = *mapped;
    }
  }
  ContinuePoolFetch(fetch, std::move(status));
}

void HandleSession::LeavePool(uint64_t pool_id) {
  const std::lock_guard lock(mutex_);
  for (const uint64_t offset : pools_.LeftIn(pool_id)) pool_returns_.emplace_back(pool_id, offset);
  mailbox_->Wake();
}

void HandleSession::UnmapPools() {
  std::vector<SessionPools::Segment> taken;
  {
    const std::lock_guard lock(mutex_);
    taken = pools_.TakeAll();
  }
  for (const SessionPools::Segment& segment : taken) UnmapSegment(segment);
}

}  // namespace tenure::client
