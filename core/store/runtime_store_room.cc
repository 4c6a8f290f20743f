#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <algorithm>
#include <map>
#include <utility>

#include "core/store/runtime_store.h"

namespace tenure {
namespace {

// Bounds how late a caller sees that it has left, or that nothing is to be waited for any more.
constexpr Duration kLookAround = std::chrono::milliseconds(20);

Bytes Requested(const PoolRequest& request) {
  if (const auto* whole = std::get_if<SegmentsSpec>(&request.wanted)) return whole->bytes;
  Bytes sum;
  for (const BufferSpec& spec : std::get<std::vector<BufferSpec>>(request.wanted)) {
    sum += spec.size;
  }
  return sum;
}

BufferKind KindOf(const PoolRequest& request) {
  if (const auto* whole = std::get_if<SegmentsSpec>(&request.wanted)) return whole->kind;
  const auto& specs = std::get<std::vector<BufferSpec>>(request.wanted);
  return std::max_element(specs.begin(), specs.end(),
                          [](const auto& a, const auto& b) { return a.size < b.size; })
      ->kind;
}

}  // namespace

StatusOr<PoolGrant> RuntimeStore::Acquire(const PoolRequest& request, const CallLimits& limits) {
  const MutexLock lock(mutex_);
  TENURE_RETURN_IF_ERROR(lost_);
  const Instant now = clock_.Now();
  TENURE_ASSIGN_OR_RETURN(Pool* const pool, pools_.Open(request.session, options_.lease_ttl, now));
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
  if (!grant.ok()) {
    const std::optional<ErrorDetail> detail = DetailOf(grant.status());
    ++counters_.refusals[detail.has_value() ? detail->reason : "INTERNAL"];
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
      Press(waiter, outbox);
      if (!outbox.empty()) {
        mutex_.Unlock();
        outbox.Send(options_.recall_wait);
        mutex_.Lock();
        continue;
      }
      if (waiter.result.has_value() || waiter.growth != nullptr) continue;
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
  std::map<SessionId, Waiter*> first_calls;  // of Sessions that wait
  for (auto next = waiters_.begin(); next != waiters_.end();) {
    const auto each = next++;
    Waiter& waiter = **each;
    const auto [first, is_first] = first_calls.try_emplace(waiter.request.session, &waiter);
    waiter.behind = is_first ? nullptr : first->second;
    if (!is_first || waiter.growth != nullptr) continue;
    const StatusOr<Pool*> pool = pools_.FindLive(waiter.request.session, waiter.pool);
    if (!pool.ok()) {
      waiter.result = pool.status();
    } else {
      const std::vector<Bytes> missing = TryPlace(waiter, **pool).missing;
      waiter.need = shape_.segment_size * missing.size();
      if (!waiter.result.has_value()) {
        const bool fits = !missing.empty() && waiter.need <= arena_.available();
        if (fits && !room_is_kept) {
          Grow(waiter, **pool, missing);
        } else {
          room_is_kept = room_is_kept || !missing.empty();
        }
        continue;
      }
    }
    first_calls.erase(first);
    waiters_.erase(each);
    waiter.done.NotifyAll();
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
    placement = pool.PlaceSegments(whole->kind, whole->bytes);
    if (!placement.placed()) return placement;
    grant.segments = pool.Grant(whole->kind, placement.blocks.front());
    counters_.segments_granted += grant.segments.size();
  } else {
    const auto& specs = std::get<std::vector<BufferSpec>>(waiter.request.wanted);
    placement = pool.Place(specs);
    if (!placement.placed()) return placement;
    StatusOr<std::vector<Buffer>> buffers = pools_.AddBuffers(pool, specs, placement.blocks);
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
  if (Waiter* const waiter = growth.waiter) {
    waiter->growth = nullptr;
    if (!created.ok()) {
      waiter->result = WithNote(created.status(), "used by others", FormatBytes(device_.foreign()));
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
void RuntimeStore::Press(Waiter& waiter, Outbox& outbox) {
  const auto first = std::find_if(waiters_.begin(), waiters_.end(), [](const Waiter* other) {
    return other->growth == nullptr && !other->need.zero();
  });
  if (first == waiters_.end() || *first != &waiter || waiter.need <= BytesToCome()) return;
  const Bytes lacking = waiter.need - BytesToCome();
  std::vector<PoolSegmentId> unused = pools_.Unused();
  const uint64_t wanted = AlignUp(lacking, shape_.segment_size) / shape_.segment_size;
  if (unused.size() >= wanted) {
    unused.resize(wanted);
    Recall(unused, outbox);
    Changed();
    return;
  }
  if (waiter.asked_until != Instant()) return;
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    if (!holding.live || holding.bytes.granted.zero()) continue;
    outbox.AddMemoryWanted(holding.session, holding.pool,
                           lacking - shape_.segment_size * unused.size());
  }
  waiter.asked_until = outbox.empty() ? Instant() : After(clock_.Now(), options_.recall_wait);
}

Status RuntimeStore::Refuse(const Waiter& waiter) {
  const Bytes needed = Requested(waiter.request);
  const Ledger ledger = LedgerNow();
  const StatusOr<Pool*> pool = pools_.FindLive(waiter.request.session, waiter.pool);
  TENURE_RETURN_IF_ERROR(pool.status());
  const Bytes own = (*pool)->bytes().free();
  const Bytes largest = (*pool)->LargestFree(arena_.available() / shape_.segment_size);

  Reason reason = Reason::kHeldByLeases;
  std::string hint = "it fits once others have released or given back as much";
  if (needed > ledger.capacity) {
    reason = Reason::kCapacity;
    hint = absl::StrCat("it can only fit if runtime gets more of ", device_.info().name);
  } else if (Promised(waiter)) {
    reason = Reason::kReclaimPending;
    hint = "the bytes are on their way back: wait for longer";
  } else if (needed <= own + arena_.available()) {
    reason = Reason::kFragmented;
    hint = "it fits once the buffers beside the largest hole are released";
  } else if (ledger.allocated().zero()) {
    reason = Reason::kCapacity;
    hint = "stranded bytes are free once whoever has maps or file descriptors of them lets go";
  }

  std::vector<std::string> holders;
  for (const PoolTable::Holding& holding : pools_.Holdings()) {
    const auto identity = identities_.find(holding.session);
    if (holding.bytes.segments.zero() || identity == identities_.end()) continue;
    holders.push_back(
        absl::StrCat(identity->second.program, "/", identity->second.instance,
                     holding.live ? "" : " (quarantined)", " ",
                     FormatBytes(holding.live ? holding.bytes.blocks : holding.bytes.segments)));
  }
  std::vector<std::string> neighbours;
  if (reason == Reason::kFragmented) {
    for (const Buffer& buffer : (*pool)->AroundLargestHole(KindOf(waiter.request))) {
      neighbours.push_back(
          absl::StrCat("buffer ", buffer.id.value(), " (", FormatBytes(buffer.requested), ")"));
    }
  }
  std::string message = absl::StrCat(
      "no runtime memory on ", device_.info().name, " for ", FormatBytes(needed), ": capacity ",
      FormatBytes(ledger.capacity), ", free ", FormatBytes(ledger.free()), " (", FormatBytes(own),
      " of it in the own pool), leased ", FormatBytes(ledger.leased), ", quarantined ",
      FormatBytes(ledger.quarantined), ", stranded ", FormatBytes(ledger.stranded),
      "; the largest buffer that would fit now has ", FormatBytes(largest));
  if (!holders.empty()) absl::StrAppend(&message, "; held by ", absl::StrJoin(holders, ", "));
  if (!neighbours.empty()) {
    absl::StrAppend(&message, "; beside the largest hole lie ", absl::StrJoin(neighbours, ", "));
  }
  absl::StrAppend(&message, "; ", hint);
  ErrorValues values = {{"device", device_.info().name},
                        {"needed_bytes", absl::StrCat(needed.count())},
                        {"capacity_bytes", absl::StrCat(ledger.capacity.count())},
                        {"free_bytes", absl::StrCat(ledger.free().count())},
                        {"largest_free_bytes", absl::StrCat(ledger.largest_free.count())},
                        {"leased_bytes", absl::StrCat(ledger.leased.count())},
                        {"quarantined_bytes", absl::StrCat(ledger.quarantined.count())},
                        {"stranded_bytes", absl::StrCat(ledger.stranded.count())},
                        {"largest_buffer_bytes", absl::StrCat(largest.count())},
                        {"hint", hint}};
  if (!holders.empty()) values.emplace_back("holders", absl::StrJoin(holders, ", "));
  if (!neighbours.empty()) values.emplace_back("neighbours", absl::StrJoin(neighbours, ", "));
  return Error(reason, message, values);
}

}  // namespace tenure
