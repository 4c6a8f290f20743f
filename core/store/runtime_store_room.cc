#include <algorithm>
#include <map>
#include <utility>

#include "core/store/runtime_store.h"

namespace tenure {
namespace {

// Bounds how late a caller sees that it has left, or that nothing is to be waited for any more.
constexpr Duration kLookAround = std::chrono::milliseconds(20);

}  // namespace

StatusOr<PoolGrant> RuntimeStore::Acquire(const PoolRequest& request, const CallLimits& limits) {
  const MutexLock lock(mutex_);
  TENURE_RETURN_IF_ERROR(lost_);
  const Instant now = clock_.Now();
  if (cordoned_ && FindPool(request.session) == nullptr) {
    ++counters_.refusals[std::string(ReasonName(Reason::kCordoned))];
    return RefuseCordoned(request);
  }
  TENURE_ASSIGN_OR_RETURN(Pool* const pool, pools_.Open(request.session, times_.lease_ttl, now));
  Waiter waiter{.request = request,
                .pool = pool->id(),
                .give_up = After(now, request.wait),
                .asked_until = {},
                .growth = nullptr,
                .behind = nullptr,
                .need = {},
                .result = {},
                .done = {}};
  const auto behind = std::find_if(waiters_.begin(), waiters_.end(), [&](const Waiter* other) {
    return other->request.priority < request.priority;
  });
  waiters_.insert(behind, &waiter);
  Serve();
  StatusOr<PoolGrant> grant = Await(waiter, limits);
  if (grant.ok()) {
    counters_.waits.Record(clock_.Now() - now);
  } else {
    const std::optional<ErrorDetail> detail = DetailOf(grant.status());
    const std::string reason = detail.has_value() ? detail->reason : "INTERNAL";
    ++counters_.refusals[reason];
    Note({.kind = EventKind::kBuffersRefused,
          .session = request.session,
          .subject = std::to_string(waiter.pool.value()),
          .bytes = RequestedBytes(request),
          .took = clock_.Now() - now,
          .detail = reason});
  }
  return grant;
}

StatusOr<PoolGrant> RuntimeStore::Await(Waiter& waiter, const CallLimits& limits) {
  while (true) {
    if (waiter.result.has_value()) return *std::move(waiter.result);
    const Instant now = clock_.Now();
    Status alive = limits.Check(now);
    if (closing_) alive = Error(Reason::kShuttingDown, "the daemon is stopping");
    if (waiter.growth == nullptr && alive.ok()) {
      Outbox outbox(events_);
      if (Press(waiter, outbox)) {
        const Duration answer_within = times_.recall_wait;
        mutex_.Unlock();
        outbox.Send(answer_within);
        mutex_.Lock();
        continue;
      }
    }
    const bool over = HasReason(alive, Reason::kDeadline);
    const bool hopeless =
        now >= waiter.give_up && !Promised(waiter.behind != nullptr ? *waiter.behind : waiter);
    if (waiter.growth == nullptr && (over || hopeless)) {
      const Status refusal = Refuse(waiter);
      Leave(waiter);
      return refusal;
    }
    if (!alive.ok()) {
      Leave(waiter);
      return alive;
    }
    waiter.done.WaitFor(mutex_, kLookAround);
  }
}

void RuntimeStore::Leave(Waiter& waiter) {
  if (waiter.growth != nullptr) waiter.growth->waiter = nullptr;
  waiters_.remove(&waiter);
  Serve();
}

void RuntimeStore::Serve() {
  bool room_is_kept = false;                 // for one that lacks bytes and came before
  std::map<SessionId, Waiter*> first_calls;  // of Sessions that wait; the others grow after it
  for (auto next = waiters_.begin(); next != waiters_.end();) {
    const auto each = next++;
    Waiter& waiter = **each;
    const auto first = first_calls.try_emplace(waiter.request.session, &waiter).first;
    waiter.behind = first->second == &waiter ? nullptr : first->second;
    if (waiter.growth != nullptr) continue;
    const StatusOr<Pool*> pool = pools_.FindLive(waiter.request.session, waiter.pool);
    if (!pool.ok()) {
      waiter.result = pool.status();
    } else {
      const std::vector<Bytes> missing = TryPlace(waiter, **pool).missing;
      waiter.need = shape_.segment_size * missing.size();
      if (!waiter.result.has_value()) {
        const bool fits = !missing.empty() && waiter.need <= arena_.available();
        if (fits && !room_is_kept && waiter.behind == nullptr) {
          Grow(waiter, **pool, missing);
        } else {
          room_is_kept = room_is_kept || !missing.empty();
        }
        continue;
      }
    }
    if (waiter.behind == nullptr) first_calls.erase(first);
    waiters_.erase(each);
    waiter.done.NotifyAll();
  }
  peak_allocated_ = std::max(peak_allocated_, Allocated());
}

Pool::Placement RuntimeStore::Place(const PoolRequest& request, Pool& pool) {
  if (const auto* whole = std::get_if<SegmentsSpec>(&request.wanted)) {
    return pool.PlaceSegments(whole->kind, whole->bytes);
  }
  return pool.Place(std::get<std::vector<BufferSpec>>(request.wanted));
}

void RuntimeStore::GiveBack(const PoolRequest& request, Pool& pool,
                            const Pool::Placement& placement) {
  const auto* whole = std::get_if<SegmentsSpec>(&request.wanted);
  for (size_t i = 0; i < placement.blocks.size(); ++i) {
    const BufferKind kind =
        whole != nullptr ? whole->kind : std::get<std::vector<BufferSpec>>(request.wanted)[i].kind;
    pool.GiveBack(kind, placement.blocks[i]);
  }
}

Pool::Placement RuntimeStore::TryPlace(Waiter& waiter, Pool& pool) {
  PoolGrant grant{.pool = ViewOf(pool.id()), .buffers = {}, .segments = {}};
  Pool::Placement placement;
  if (const auto* whole = std::get_if<SegmentsSpec>(&waiter.request.wanted)) {
    if (whole->bytes.zero()) {
      waiter.result = std::move(grant);
      return placement;
    }
    placement = Place(waiter.request, pool);
    if (!placement.placed()) return placement;
    grant.segments = pool.Grant(whole->kind, placement.blocks.front());
    counters_.segments_granted += grant.segments.size();
  } else {
    const auto& specs = std::get<std::vector<BufferSpec>>(waiter.request.wanted);
    placement = Place(waiter.request, pool);
    if (!placement.placed()) return placement;
    StatusOr<std::vector<Buffer>> buffers =
        pools_.AddBuffers(pool, specs, placement.blocks, clock_.Now());
    if (!buffers.ok()) {
      waiter.result = buffers.status();
      return placement;
    }
    grant.buffers = *std::move(buffers);
    counters_.buffers_granted += grant.buffers.size();
  }
  waiter.result = std::move(grant);
  return placement;
}

void RuntimeStore::Grow(Waiter& waiter, Pool& pool, const std::vector<Bytes>& missing) {
  auto growth = std::make_unique<Growth>();
  growth->pool = pool.id();
  growth->offsets = missing;
  growth->claim = *arena_.ClaimRoom(waiter.need);
  growth->waiter = &waiter;
  for (const Bytes offset : missing) pool.Expect(offset);
  waiter.growth = growth.get();
  growths_.push_back(std::move(growth));
  growth_work_.NotifyOne();
}

void RuntimeStore::RunGrowths() {
  MutexLock lock(mutex_);
  while (true) {
    while (growths_.empty() && !closing_) growth_work_.Wait(mutex_);
    if (growths_.empty()) return;
    const std::vector<Bytes> sizes = growths_.front()->claim.MissingSizes();
    StatusOr<std::vector<Segment>> created = std::vector<Segment>();
    if (!sizes.empty() && !closing_) {
      lock.Unlock();
      created = device_.CreateSegments(SegmentUse::kRuntime, sizes);
      lock.Lock();
    }
    const std::unique_ptr<Growth> growth = std::move(growths_.front());
    growths_.pop_front();
    EndGrowth(*growth, std::move(created));
  }
}

void RuntimeStore::EndGrowth(Growth& growth, StatusOr<std::vector<Segment>> created) {
  // All Segments of this arena have one size, so a claim never has to make room first.
  TENURE_CHECK(growth.claim.evicted.empty());
  const Instant now = clock_.Now();
  if (created.ok()) {
    auto next = created->begin();
    for (size_t i = 0; i < growth.offsets.size(); ++i) {
      std::optional<Segment>& segment = growth.claim.slots[i].segment;
      if (!segment.has_value() && next != created->end()) {
        arena_.Created(next->size());
        segment = std::move(*next++);
      }
    }
  }
  const bool whole = std::all_of(growth.claim.slots.begin(), growth.claim.slots.end(),
                                 [](const auto& slot) { return slot.segment.has_value(); });
  std::vector<Segment> unused;
  for (size_t i = 0; i < growth.offsets.size(); ++i) {
    const PoolSegmentId id{growth.pool, growth.offsets[i]};
    std::optional<Segment>& segment = growth.claim.slots[i].segment;
    if (whole) {
      pools_.Fill(id, *std::move(segment), now);
    } else {
      pools_.Abandon(id);
      if (segment.has_value()) unused.push_back(*std::move(segment));
    }
  }
  if (!whole) {
    const Bytes never_created = shape_.segment_size * (growth.offsets.size() - unused.size());
    arena_.Return(std::move(unused), never_created, now);
  }
  if (whole) {
    const Pool* const pool = pools_.FindLive(growth.pool);
    Note({.kind = EventKind::kPoolGrew,
          .session = pool == nullptr ? SessionId() : pool->session(),
          .subject = std::to_string(growth.pool.value()),
          .bytes = shape_.segment_size * growth.offsets.size()});
  }
  if (Waiter* const waiter = growth.waiter) {
    waiter->growth = nullptr;
    if (!created.ok()) {
      waiter->result = RefuseGrowth(*waiter, created.status());
      waiters_.remove(waiter);
      waiter->done.NotifyAll();
    }
  }
  Changed();
}

Bytes RuntimeStore::BytesToCome() const {
  return arena_.available() + arena_.leaving() + pools_.recalled();
}

bool RuntimeStore::Promised(const Waiter& waiter) const {
  if (waiter.growth != nullptr) return true;
  if (waiter.need.zero()) return false;
  return waiter.need <= BytesToCome() || clock_.Now() < waiter.asked_until;
}

// Only the first that lacks bytes asks: the others would ask for the same ones.
bool RuntimeStore::Press(Waiter& waiter, Outbox& outbox) {
  const auto first = std::find_if(waiters_.begin(), waiters_.end(),
                                  [](const Waiter* other) { return Lacks(*other); });
  if (first == waiters_.end() || *first != &waiter || waiter.need <= BytesToCome()) return false;
  const Bytes lacking = waiter.need - BytesToCome();
  std::vector<PoolSegmentId> unused = pools_.Unused();
  const uint64_t wanted = AlignUp(lacking, shape_.segment_size) / shape_.segment_size;
  if (unused.size() >= wanted) {
    // Its own may be those that it would lie in.
    std::stable_partition(unused.begin(), unused.end(),
                          [&](const PoolSegmentId& id) { return id.pool != waiter.pool; });
    unused.resize(wanted);
    Recall(unused, outbox);
    Changed();
    return true;
  }
  if (waiter.asked_until != Instant()) return false;
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    if (!holding.live || holding.bytes.askable().zero()) continue;
    outbox.AddMemoryWanted(holding.session, holding.pool,
                           lacking - shape_.segment_size * unused.size());
  }
  if (outbox.empty()) return false;
  waiter.asked_until = After(clock_.Now(), times_.recall_wait);
  return true;
}

}  // namespace tenure
