#include "core/runtime/pool_table.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace tenure {
namespace {

Status NoSuch(const char* what, const char* key, uint64_t id) {
  return Error(Reason::kLeaseNotFound, absl::StrCat("no such ", what, ": ", id),
               {{key, absl::StrCat(id)}});
}

Status Over(const char* what, const char* key, uint64_t id) {
  return Error(Reason::kLeaseExpired,
               absl::StrCat("the lease on the pool is over, and with it the ", what, ": ", id),
               {{key, absl::StrCat(id)}});
}

Status NoSegment(const char* what, PoolId pool, Bytes offset) {
  return Error(Reason::kInvalidRequest,
               absl::StrCat(what, "; pool: ", pool.value(), ", offset: ", offset.count()),
               {{"pool_id", absl::StrCat(pool.value())}, {"offset", absl::StrCat(offset.count())}});
}

}  // namespace

void PoolTable::OpenSession(SessionId session) { sessions_.try_emplace(session); }

void PoolTable::CloseSession(SessionId session, Instant now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  found->second.open = false;
  if (found->second.live.valid()) EndLease(pools_.at(found->second.live), now);
}

// What is being exported stays until the export ends; nobody can see it then.
void PoolTable::EndSession(SessionId session, Instant now) {
  CloseSession(session, now);
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const std::set<PoolId> pools = std::move(found->second.pools);
  sessions_.erase(found);
  for (const PoolId id : pools) {
    Pool& pool = pools_.at(id).pool;
    for (const auto& [offset, segment] : pool.segments()) EndShare(*pool.Find(offset));
    SettleAll(id);
  }
}

bool PoolTable::IsOpen(SessionId session) const {
  const auto found = sessions_.find(session);
  return found != sessions_.end() && found->second.open;
}

void PoolTable::Renew(SessionId session, Instant now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.live.valid()) return;
  Entry& entry = pools_.at(found->second.live);
  entry.expires = std::max(entry.expires, After(now, entry.ttl));
}

std::vector<PoolTable::ExpiredPool> PoolTable::Expire(Instant now) {
  std::vector<ExpiredPool> expired;
  for (const auto& [id, entry] : pools_) {
    if (entry.live && entry.expires <= now) {
      expired.push_back({.session = entry.pool.session(), .pool = id});
    }
  }
  for (const ExpiredPool& each : expired) EndLease(pools_.at(each.pool), now);
  return expired;
}

void PoolTable::EndLease(Entry& entry, Instant now) {
  Pool& pool = entry.pool;
  entry.live = false;
  sessions_.at(pool.session()).live = PoolId();
  for (const BufferId buffer : pool.ReleaseAll(now)) entry.expired_buffers.insert(buffer);
  SettleAll(pool.id());
}

StatusOr<Pool*> PoolTable::Open(SessionId session, Duration ttl, Instant now) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || !found->second.open) {
    return Error(Reason::kSessionUnknown, absl::StrCat("no such session: ", session.value()));
  }
  SessionEntry& owner = found->second;
  if (!owner.live.valid()) {
    owner.live = ids_.pools.Next();
    owner.pools.insert(owner.live);
    pools_.emplace(owner.live, Entry{.pool = Pool(owner.live, session, shape_),
                                     .live = true,
                                     .ttl = {},
                                     .expires = {},
                                     .expired_buffers = {}});
  }
  Entry& entry = pools_.at(owner.live);
  entry.ttl = ttl;
  entry.expires = std::max(entry.expires, After(now, ttl));
  return &entry.pool;
}

StatusOr<Pool*> PoolTable::FindLive(SessionId session, PoolId pool) {
  const auto found = pools_.find(pool);
  if (found == pools_.end() || found->second.pool.session() != session) {
    return NoSuch("pool", "pool_id", pool.value());
  }
  if (!found->second.live) return Over("pool", "pool_id", pool.value());
  return &found->second.pool;
}

const Pool* PoolTable::FindLive(PoolId pool) const {
  const auto found = pools_.find(pool);
  return found == pools_.end() || !found->second.live ? nullptr : &found->second.pool;
}

Pool* PoolTable::FindLive(PoolId pool) {
  return const_cast<Pool*>(std::as_const(*this).FindLive(pool));
}

StatusOr<std::vector<Buffer>> PoolTable::AddBuffers(Pool& pool, std::span<const BufferSpec> specs,
                                                    std::span<const PoolRange::Block> blocks,
                                                    Instant now) {
  TENURE_CHECK(specs.size() == blocks.size());
  size_t held = 0;
  for (const PoolId id : sessions_.at(pool.session()).pools) {
    const Entry& entry = pools_.at(id);
    held += entry.pool.buffer_count() + entry.expired_buffers.size();
  }
  if (held + specs.size() > kMaxBuffersPerSession) {
    for (size_t i = 0; i < specs.size(); ++i) pool.GiveBack(specs[i].kind, blocks[i]);
    return Error(Reason::kLimit, absl::StrCat("the session holds too many buffers: ", held),
                 {{"held", absl::StrCat(held)}, {"limit", absl::StrCat(kMaxBuffersPerSession)}});
  }
  std::vector<Buffer> buffers;
  buffers.reserve(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) {
    buffers.push_back(pool.AddBuffer(ids_.buffers.Next(), specs[i], blocks[i], now));
  }
  return buffers;
}

Status PoolTable::Release(SessionId session, BufferId buffer, Instant now) {
  const auto owner = sessions_.find(session);
  if (owner == sessions_.end()) return NoSuch("buffer", "buffer_id", buffer.value());
  for (const PoolId id : owner->second.pools) {
    Entry& entry = pools_.at(id);
    if (entry.live) {
      if (const std::optional<Pool::Released> released = entry.pool.Release(buffer, now)) {
        holds_[static_cast<size_t>(released->kind)].Record(now - released->since);
        return absl::OkStatus();
      }
    }
    if (entry.expired_buffers.erase(buffer) > 0) return Over("buffer", "buffer_id", buffer.value());
  }
  return NoSuch("buffer", "buffer_id", buffer.value());
}

void PoolTable::Fill(PoolSegmentId id, Segment segment, Instant now) {
  Entry& entry = pools_.at(id.pool);
  entry.pool.Fill(id.offset, std::move(segment), now);
  if (entry.live) return;
  entry.pool.Close(id.offset, now);
  Settle(id);
}

void PoolTable::Abandon(PoolSegmentId id) {
  pools_.at(id.pool).pool.Abandon(id.offset);
  EraseIfEmpty(id.pool);
}

Status PoolTable::Shrink(SessionId session, PoolId pool, std::span<const Bytes> offsets,
                         Instant answer_by, Instant now) {
  TENURE_ASSIGN_OR_RETURN(Pool* const live, FindLive(session, pool));
  std::set<Bytes> once;
  for (const Bytes offset : offsets) {
    if (!live->IsGranted(offset) || !once.insert(offset).second) {
      return NoSegment("no segment was granted there", pool, offset);
    }
  }
  for (const Bytes offset : offsets) (void)Recall({pool, offset}, answer_by, now);
  return absl::OkStatus();
}

std::vector<PoolSegmentId> PoolTable::Unused(Instant since) const {
  std::vector<std::tuple<bool, Instant, PoolSegmentId>> unused;
  for (const auto& [id, entry] : pools_) {
    if (!entry.live) continue;
    for (const auto& [offset, segment] : entry.pool.segments()) {
      const bool on_its_way = segment.exports > 0 || segment.sending > 0;
      if (!on_its_way && segment.unused_since <= since && entry.pool.Unused(offset)) {
        unused.emplace_back(segment.share.valid(), segment.unused_since, PoolSegmentId{id, offset});
      }
    }
  }
  std::sort(unused.begin(), unused.end());
  std::vector<PoolSegmentId> ids;
  ids.reserve(unused.size());
  for (const auto& [shared, since, id] : unused) ids.push_back(id);
  return ids;
}

std::optional<ShareSerial> PoolTable::Recall(PoolSegmentId id, Instant answer_by, Instant now) {
  Entry& entry = pools_.at(id.pool);
  entry.pool.Close(id.offset, now);
  PoolSegment& segment = *entry.pool.Find(id.offset);
  if (segment.share.valid()) {
    segment.answer_by = answer_by;
    recalls_.emplace(answer_by, id);
    return segment.share;
  }
  Settle(id);
  return std::nullopt;
}

size_t PoolTable::EndRecalls(Instant now) {
  size_t unanswered = 0;
  while (!recalls_.empty() && recalls_.begin()->first <= now) {
    const PoolSegmentId id = recalls_.begin()->second;
    recalls_.erase(recalls_.begin());
    pools_.at(id.pool).pool.MarkUnanswered(id.offset);
    ++unanswered;
  }
  return unanswered;
}

StatusOr<std::vector<PoolTable::Shared>> PoolTable::BeginExport(SessionId session, PoolId pool,
                                                                std::span<const Bytes> offsets) {
  TENURE_ASSIGN_OR_RETURN(Pool* const live, FindLive(session, pool));
  for (const Bytes offset : offsets) {
    const PoolSegment* const segment = live->Find(offset);
    if (segment == nullptr || !segment->segment.has_value() || segment->closed) {
      return NoSegment("there is no segment", pool, offset);
    }
  }
  std::vector<Shared> begun;
  for (const Bytes offset : offsets) {
    PoolSegment& segment = *live->Find(offset);
    ++segment.exports;
    ++segment.sending;
    if (!segment.share.valid()) {
      segment.share = ids_.shares.Next();
      shares_.emplace(segment.share, PoolSegmentId{pool, offset});
    }
    begun.push_back({.id = {pool, offset}, .share = segment.share, .segment = &*segment.segment});
  }
  return begun;
}

Status PoolTable::MaySend(const Shared& shared) const {
  const auto found = pools_.find(shared.id.pool);
  if (found == pools_.end() || !found->second.live) {
    return Over("pool", "pool_id", shared.id.pool.value());
  }
  if (shares_.contains(shared.share)) return absl::OkStatus();
  return Error(Reason::kCancelled, "the share ended while it was being exported");
}

void PoolTable::EndExport(const Shared& shared) {
  PoolSegment& segment = *pools_.at(shared.id.pool).pool.Find(shared.id.offset);
  TENURE_CHECK(segment.exports > 0);
  --segment.exports;
  Settle(shared.id);
}

void PoolTable::EndSending(const Shared& shared, bool sent) {
  const auto found = shares_.find(shared.share);
  if (found == shares_.end()) return;
  const PoolSegmentId id = found->second;
  PoolSegment& segment = *pools_.at(id.pool).pool.Find(id.offset);
  TENURE_CHECK(segment.sending > 0);
  --segment.sending;
  segment.sent |= sent;
  if (segment.sent || segment.sending > 0) return;
  EndShare(segment);
  Settle(id);
}

bool PoolTable::CloseShare(SessionId session, ShareSerial share, Instant now) {
  const auto found = shares_.find(share);
  if (found == shares_.end()) return false;
  const PoolSegmentId id = found->second;
  Pool& pool = pools_.at(id.pool).pool;
  if (pool.session() != session) return false;
  PoolSegment& segment = *pool.Find(id.offset);
  EndShare(segment);
  if (segment.granted.has_value() || pool.Unused(id.offset)) pool.Close(id.offset, now);
  Settle(id);
  return true;
}

void PoolTable::EndShare(PoolSegment& segment) {
  if (!segment.share.valid()) return;
  const auto found = shares_.find(segment.share);
  if (segment.answer_by.has_value()) {
    recalls_.erase({*segment.answer_by, found->second});
    segment.answer_by.reset();
  }
  shares_.erase(found);
  segment.share = ShareSerial();
  segment.sending = 0;
  segment.sent = false;
}

void PoolTable::Settle(PoolSegmentId id) {
  Pool& pool = pools_.at(id.pool).pool;
  const PoolSegment& segment = *pool.Find(id.offset);
  if (!segment.closed || segment.share.valid() || segment.exports > 0) return;
  returned_.push_back(pool.Take(id.offset));
  EraseIfEmpty(id.pool);
}

void PoolTable::SettleAll(PoolId pool) {
  std::vector<PoolSegmentId> ids;
  for (const auto& [offset, segment] : pools_.at(pool).pool.segments()) {
    ids.push_back({pool, offset});
  }
  for (const PoolSegmentId id : ids) Settle(id);
  if (ids.empty()) EraseIfEmpty(pool);
}

void PoolTable::EraseIfEmpty(PoolId pool) {
  const auto found = pools_.find(pool);
  const Entry& entry = found->second;
  if (entry.live || !entry.pool.segments().empty()) return;
  const auto owner = sessions_.find(entry.pool.session());
  if (owner != sessions_.end()) owner->second.pools.erase(pool);
  pools_.erase(found);
}

std::vector<Segment> PoolTable::TakeReturned() { return std::exchange(returned_, {}); }

std::vector<PoolTable::Holding> PoolTable::Holdings() const {
  std::vector<Holding> holdings;
  for (const auto& [id, entry] : pools_) {
    size_t shares = 0;
    for (const auto& [offset, segment] : entry.pool.segments()) shares += segment.share.valid();
    holdings.push_back({.session = entry.pool.session(),
                        .pool = id,
                        .bytes = entry.pool.bytes(),
                        .live = entry.live,
                        .buffers = entry.pool.buffer_count(),
                        .shares = shares});
  }
  return holdings;
}

PoolTable::Use PoolTable::UseBy(SessionId session) const {
  Use use;
  const auto owner = sessions_.find(session);
  if (owner == sessions_.end()) return use;
  for (const PoolId id : owner->second.pools) {
    const Entry& entry = pools_.at(id);
    use.pools += entry.live;
    for (const auto& [offset, segment] : entry.pool.segments()) {
      if (!segment.share.valid()) continue;
      ++use.shares;
      use.quarantined_shares += !entry.live || segment.unanswered;
    }
  }
  return use;
}

void PoolTable::Validate() const {
  size_t shares = 0;
  size_t recalls = 0;
  for (const auto& [id, entry] : pools_) {
    entry.pool.Validate();
    const auto owner = sessions_.find(entry.pool.session());
    TENURE_CHECK(!entry.live ||
                 (owner != sessions_.end() && owner->second.open && owner->second.live == id));
    TENURE_CHECK(entry.live || !entry.pool.segments().empty());
    TENURE_CHECK(entry.live || entry.pool.bytes().blocks.zero());
    for (const auto& [offset, segment] : entry.pool.segments()) {
      const PoolSegmentId here{id, offset};
      TENURE_CHECK(entry.live || !segment.segment.has_value() || segment.closed);
      TENURE_CHECK(!segment.closed || segment.share.valid() || segment.exports > 0);
      if (segment.share.valid()) {
        ++shares;
        TENURE_CHECK(owner != sessions_.end() && shares_.at(segment.share) == here);
      }
      if (segment.answer_by.has_value()) {
        ++recalls;
        TENURE_CHECK(segment.share.valid() && recalls_.contains({*segment.answer_by, here}));
      }
    }
  }
  TENURE_CHECK(shares == shares_.size() && recalls == recalls_.size());
  for (const auto& [session, entry] : sessions_) {
    for (const PoolId pool : entry.pools) TENURE_CHECK(pools_.at(pool).pool.session() == session);
  }
}

}  // namespace tenure
