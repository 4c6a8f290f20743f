#include "client/cpp/session_pool.h"

#include <utility>

#include "client/cpp/duration.h"
#include "client/cpp/error.h"
#include "client/cpp/translate.h"

namespace tenure::client {
namespace {

// As the daemon says it.
constexpr std::string_view kPoolExpired = "LEASE_EXPIRED";

absl::Status PoolOver() {
  return MakeError(absl::StatusCode::kFailedPrecondition, kPoolExpired,
                   "the lease on the pool is over");
}

}  // namespace

absl::StatusOr<std::shared_ptr<LocalPool>> SessionPool::Open(std::shared_ptr<Connection> connection,
                                                             const PoolOptions& options,
                                                             Duration timeout, Deadline deadline,
                                                             const std::stop_token& cancel) {
  std::shared_ptr<SessionPool> source(new SessionPool(std::move(connection), options));
  v1::GrowPoolRequest request;
  request.set_device(options.device);
  TENURE_CLIENT_ASSIGN_OR_RETURN(const Connection::GrownPool opened,
                                 source->connection_->GrowPool(request, deadline, cancel));
  source->pool_ = opened.pool;
  // In a forked child it is left as it is, for another thread may have been at work in it.
  const std::shared_ptr<LocalPool> local(
      new LocalPool({.base = opened.mapping->base(),
                     .range_bytes = opened.pool.range_bytes,
                     .segment_bytes = opened.pool.segment_bytes,
                     .idle_ttl = options.idle_ttl,
                     .timeout = timeout},
                    source, opened.mapping->cuda_events()),
      [session = &source->connection_->session()](LocalPool* pool) {
        if (pool->forked()) {
          session->AbandonAfterFork();
        } else {
          delete pool;
        }
      });
  source->local_ = local;
  if (!source->connection_->session().Listen(opened.pool.pool_id, source)) {
    local->Invalidate(kPoolExpired);
  }
  return local;
}

SessionPool::~SessionPool() {
  connection_->session().UnmapSegments(pool_.pool_id, {segments_.begin(), segments_.end()});
  connection_->session().LeavePool(pool_.pool_id);
}

absl::StatusOr<SegmentSource::Grown> SessionPool::Grow(BufferKind kind, uint64_t bytes,
                                                       Deadline deadline,
                                                       const std::stop_token& cancel) {
  v1::GrowPoolRequest request;
  request.set_device(pool_.device.name);
  request.set_kind(ToMessage(kind));
  request.set_bytes(bytes);
  request.set_priority(options_.priority);
  client::ToProto(options_.wait, request.mutable_wait());
  TENURE_CLIENT_ASSIGN_OR_RETURN(const Connection::GrownPool grown,
                                 connection_->GrowPool(request, deadline, cancel));
  std::vector<uint64_t> offsets;
  for (uint64_t at = 0; at < grown.bytes; at += pool_.segment_bytes) {
    offsets.push_back(grown.offset + at);
  }
  // The daemon has lost the pool, and opened another one for the session.
  if (grown.pool.pool_id != pool_.pool_id) {
    connection_->session().UnmapSegments(grown.pool.pool_id, offsets);
    return PoolOver();
  }
  const std::lock_guard lock(mutex_);
  segments_.insert(offsets.begin(), offsets.end());
  return Grown{.offset = grown.offset, .bytes = grown.bytes};
}

void SessionPool::Shrink(std::vector<uint64_t> offsets) {
  {
    const std::lock_guard lock(mutex_);
    for (const uint64_t offset : offsets) segments_.erase(offset);
  }
  connection_->session().UnmapSegments(pool_.pool_id, offsets);
}

absl::StatusOr<SegmentSource::Granted> SessionPool::AcquireBuffer(uint64_t bytes,
                                                                  uint64_t alignment,
                                                                  Deadline deadline,
                                                                  const std::stop_token& cancel) {
  v1::AcquireBuffersRequest request;
  request.set_device(pool_.device.name);
  request.set_priority(options_.priority);
  client::ToProto(options_.wait, request.mutable_wait());
  request.set_may_be_idle(true);
  v1::BufferSpec& spec = *request.add_buffers();
  spec.set_size(bytes);
  spec.set_alignment(alignment);
  spec.set_kind(ToMessage(BufferKind::kActivation));
  TENURE_CLIENT_ASSIGN_OR_RETURN(const Connection::GrantedBuffer granted,
                                 connection_->AcquireBuffer(request, deadline, cancel));
  if (granted.pool_id != pool_.pool_id) {
    connection_->ReleaseBuffers({granted.buffer_id});
    return PoolOver();
  }
  return Granted{.offset = granted.offset, .buffer_id = granted.buffer_id};
}

void SessionPool::ReleaseBuffers(const std::vector<uint64_t>& buffer_ids) {
  connection_->ReleaseBuffers(buffer_ids);
}

void SessionPool::OnMemoryWanted(uint64_t bytes) {
  if (const std::shared_ptr<LocalPool> local = local_.lock()) local->GiveBack(bytes);
}

void SessionPool::OnPoolLost(const std::string& reason) {
  if (const std::shared_ptr<LocalPool> local = local_.lock()) local->Invalidate(reason);
}

void SessionPool::OnSweep(Instant now) {
  if (const std::shared_ptr<LocalPool> local = local_.lock()) local->Sweep(now);
}

}  // namespace tenure::client
