#include "core/store/runtime_store.h"

#include <algorithm>
#include <utility>

namespace tenure {
namespace {

// Times the arena, so that runs of empty slots are found though small Buffers lie here and there.
constexpr uint64_t kAddressSpace = 4;

// How often unused Segments are looked for.
constexpr Duration kTrimInterval = std::chrono::seconds(1);

Pool::Shape ShapeOf(const RuntimeStoreOptions& options) {
  const uint64_t segments = options.capacity / options.segment_size;
  return {.segment_size = options.segment_size,
          .kind_bytes = options.segment_size * (segments * kAddressSpace)};
}

}  // namespace

RuntimeStore::RuntimeStore(Device& device, const RuntimeStoreOptions& options, const Clock& clock,
                           IdSequences& ids, SessionEvents& events)
    : device_(device),
      options_(options),
      shape_(ShapeOf(options)),
      clock_(clock),
      events_(events),
      export_ids_(ids.exports),
      arena_({.capacity = options.capacity,
              .segment_size = options.segment_size,
              .granule = device.info().granule}),
      pools_(shape_, {.pools = ids.pools, .buffers = ids.buffers, .shares = ids.shares}),
      times_(options) {
  threads_.emplace_back([this] { RunGrowths(); });
  threads_.emplace_back([this] { RunExports(); });
  threads_.emplace_back([this] { RunDestroyer(); });
}

RuntimeStore::~RuntimeStore() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
    growth_work_.NotifyAll();
    export_work_.NotifyAll();
    leaving_.Close();
  }
  for (std::thread& thread : threads_) thread.join();
}

void RuntimeStore::OpenSession(SessionId session, const SessionIdentity& identity) {
  const MutexLock lock(mutex_);
  pools_.OpenSession(session);
  identities_.emplace(session, identity);
}

void RuntimeStore::RenewSession(SessionId session) {
  const MutexLock lock(mutex_);
  pools_.Renew(session, clock_.Now());
}

void RuntimeStore::CloseSession(SessionId session) {
  const MutexLock lock(mutex_);
  pools_.CloseSession(session, clock_.Now());
  Changed();
}

void RuntimeStore::EndSession(SessionId session) {
  const MutexLock lock(mutex_);
  pools_.EndSession(session, clock_.Now());
  identities_.erase(session);
  if (survivors_.Set(session, Bytes(0), arena_.capacity())) {
    arena_.SetSurviving(survivors_.Sum());
  }
  Changed();
}

void RuntimeStore::SetSurviving(SessionId session, Bytes size) {
  const MutexLock lock(mutex_);
  if (!options_.capacity_includes_survivors || !identities_.contains(session)) return;
  if (!survivors_.Set(session, size, arena_.capacity())) return;
  arena_.SetSurviving(survivors_.Sum());
  Changed();
}

void RuntimeStore::Changed() {
  std::vector<Segment> returned = pools_.TakeReturned();
  if (!returned.empty()) {
    const Bytes bytes = shape_.segment_size * returned.size();
    arena_.Return(std::move(returned), Bytes(0), clock_.Now());
    Note({.kind = EventKind::kPoolShrank, .bytes = bytes});
  }
  Serve();
}

Bytes RuntimeStore::Allocated() const { return arena_.claimed() - pools_.free(); }

void RuntimeStore::Note(Event event) {
  if (options_.event_log == nullptr) return;
  event.at = clock_.Now();
  event.device = device_.info().name;
  event.arena = "runtime";
  event.ledger = LedgerNow();
  options_.event_log->Record(std::move(event));
}

void RuntimeStore::CountPinned() {
  arena_.SetPinned(device_.stranded(SegmentUse::kRuntime).value_or(Bytes(0)));
}

std::optional<Status> RuntimeStore::Release(SessionId session, BufferId buffer) {
  const MutexLock lock(mutex_);
  const Status released = pools_.Release(session, buffer, clock_.Now());
  if (HasReason(released, Reason::kLeaseNotFound)) return std::nullopt;
  if (released.ok()) ++counters_.buffers_released;
  Changed();
  return released;
}

std::optional<Status> RuntimeStore::Shrink(SessionId session, PoolId pool,
                                           std::span<const Bytes> offsets) {
  const MutexLock lock(mutex_);
  const Instant now = clock_.Now();
  const Status shrunk = pools_.Shrink(session, pool, offsets, After(now, times_.recall_wait), now);
  if (HasReason(shrunk, Reason::kLeaseNotFound)) return std::nullopt;
  Changed();
  return shrunk;
}

bool RuntimeStore::Holds(SessionId session, const PoolGrant& grant) const {
  const MutexLock lock(mutex_);
  const Pool* const pool = pools_.FindLive(grant.pool.id);
  if (pool == nullptr || pool->session() != session) return false;
  return std::all_of(grant.buffers.begin(), grant.buffers.end(),
                     [&](const Buffer& buffer) { return pool->Has(buffer.id); }) &&
         std::all_of(grant.segments.begin(), grant.segments.end(),
                     [&](Bytes offset) { return pool->IsGranted(offset); });
}

bool RuntimeStore::Unmapped(SessionId session, ShareSerial share) {
  const MutexLock lock(mutex_);
  if (!pools_.CloseShare(session, share, clock_.Now())) return false;
  Changed();
  return true;
}

void RuntimeStore::Tick() {
  const Instant now = clock_.Now();
  Outbox outbox(events_);
  const Status served = device_.Look();
  Duration answer_within{};
  {
    const MutexLock lock(mutex_);
    answer_within = times_.recall_wait;
    if (!served.ok() && lost_.ok()) Lose(served, outbox);
    CountPinned();
    for (const PoolTable::ExpiredPool& expired : pools_.Expire(now)) {
      ++counters_.pools_expired;
      Note({.kind = EventKind::kPoolExpired,
            .session = expired.session,
            .subject = std::to_string(expired.pool.value())});
      outbox.AddPoolLost(expired.session, expired.pool, Reason::kLeaseExpired);
    }
    const size_t unanswered = pools_.EndRecalls(now);
    counters_.recalls_unanswered += unanswered;
    if (unanswered > 0) {
      Note({.kind = EventKind::kRecallUnanswered, .bytes = shape_.segment_size * unanswered});
    }
    if (now >= next_trim_) {
      next_trim_ = now + kTrimInterval;
      if (times_.pool_ttl != kForever) Recall(pools_.Unused(now - times_.pool_ttl), outbox);
      if (times_.cache_ttl != kForever) {
        leaving_.Add(arena_.TakeCachedBefore(now - times_.cache_ttl));
      }
    }
    Changed();
  }
  outbox.Send(answer_within);
}

void RuntimeStore::Recall(std::span<const PoolSegmentId> segments, Outbox& outbox) {
  const Instant now = clock_.Now();
  std::map<std::pair<SessionId, PoolId>, Bytes> recalled;
  for (const PoolSegmentId& id : segments) {
    const SessionId session = pools_.FindLive(id.pool)->session();
    const std::optional<ShareSerial> share = pools_.Recall(id, After(now, times_.recall_wait), now);
    if (!share.has_value()) continue;
    ++counters_.recalls_sent;
    recalled[{session, id.pool}] += shape_.segment_size;
    outbox.AddPoolRecall(session, id.pool, *share);
  }
  for (const auto& [pool, bytes] : recalled) {
    Note({.kind = EventKind::kRecalled,
          .session = pool.first,
          .subject = std::to_string(pool.second.value()),
          .bytes = bytes});
  }
}

// What runs on the Device may never return: nobody waits for it, and what it holds stays as it is.
void RuntimeStore::Lose(const Status& reason, Outbox& outbox) {
  lost_ = reason;
  for (Waiter* waiter : waiters_) {
    if (waiter->growth != nullptr) std::exchange(waiter->growth, nullptr)->waiter = nullptr;
    waiter->result = reason;
    waiter->done.NotifyAll();
  }
  waiters_.clear();
  LoseExports(reason, outbox);
  for (const PoolTable::ExpiredPool& lost : pools_.Expire(kNever)) {
    ++counters_.pools_lost;
    Note({.kind = EventKind::kPoolLost,
          .session = lost.session,
          .subject = std::to_string(lost.pool.value())});
    outbox.AddPoolLost(lost.session, lost.pool, Reason::kDeviceLost);
  }
}

void RuntimeStore::RunDestroyer() {
  const MutexLock lock(mutex_);
  while (const std::optional<Bytes> destroyed = leaving_.DestroyNext(mutex_)) {
    arena_.Left(*destroyed);
    CountPinned();
    trimmed_.NotifyAll();
    Changed();
    Note({.kind = EventKind::kSegmentsDestroyed, .bytes = *destroyed});
  }
}

}  // namespace tenure
