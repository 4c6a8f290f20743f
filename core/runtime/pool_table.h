#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/base/clock.h"
#include "core/base/hold_durations.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/device/segment.h"
#include "core/runtime/buffer.h"
#include "core/runtime/pool.h"
#include "core/runtime/pool_map.h"

namespace tenure {

// A Segment of a Pool, by the offset of its first byte.
struct PoolSegmentId {
  PoolId pool;
  Bytes offset;
  friend auto operator<=>(const PoolSegmentId&, const PoolSegmentId&) = default;
};

// The Pools of one Device and the Sessions that they belong to. A Session has at most one live
// Pool: its lease on all the Buffers in it. The lease ends when it is not renewed in time, or when
// the Session closes; then the Buffers are gone, and each Segment stays until its Share has ended,
// by the Session's word or with its process. Only Segments without a Share are ever returned.
//
// Segments that nobody has any more pile up in here until TakeReturned. Thread-compatible.
class PoolTable {
 public:
  // Most Buffers that one Session may hold, live or expired and not answered for.
  static constexpr size_t kMaxBuffersPerSession = 100'000;

  struct Ids {
    IdSequence<PoolId>& pools;
    IdSequence<BufferId>& buffers;
    IdSequence<ShareSerial>& shares;
  };

  PoolTable(const Pool::Shape& shape, const Ids& ids) : shape_(shape), ids_(ids) {}

  // --- Sessions. As in LeaseTable.
  void OpenSession(SessionId session);
  void CloseSession(SessionId session, Instant now);
  void EndSession(SessionId session, Instant now);
  bool IsOpen(SessionId session) const;
  // Renews the lease on the live Pool, which never shortens it.
  void Renew(SessionId session, Instant now);
  // Ends the leases whose time is over, and returns their Pools.
  struct ExpiredPool {
    SessionId session;
    PoolId pool;
  };
  std::vector<ExpiredPool> Expire(Instant now);

  // --- Pools.
  // The live one, made if there is none; its lease is renewed for `ttl`. SESSION_UNKNOWN if the
  // Session is not open.
  StatusOr<Pool*> Open(SessionId session, Duration ttl, Instant now);
  // LEASE_NOT_FOUND, LEASE_EXPIRED: a Pool of another Session, or one that is not live any more.
  StatusOr<Pool*> FindLive(SessionId session, PoolId pool);
  // Null if it is not live.
  Pool* FindLive(PoolId pool);
  const Pool* FindLive(PoolId pool) const;

  // --- Buffers.
  // LIMIT if the Session would hold too many; then the blocks are given back. REQUIRES: blocks of
  // this live Pool for the specs.
  StatusOr<std::vector<Buffer>> AddBuffers(Pool& pool, std::span<const BufferSpec> specs,
                                           std::span<const PoolRange::Block> blocks, Instant now);
  // LEASE_EXPIRED, LEASE_NOT_FOUND.
  Status Release(SessionId session, BufferId buffer, Instant now);

  // --- Segments.
  // One that was expected has come: into its Pool, or back at once if that is not live any more.
  void Fill(PoolSegmentId id, Segment segment, Instant now);
  void Abandon(PoolSegmentId id);
  // The Session gives back Segments that were granted to it. All or nothing: INVALID_REQUEST if one
  // is not.
  Status Shrink(SessionId session, PoolId pool, std::span<const Bytes> offsets, Instant answer_by,
                Instant now);
  // Those that no block lies in, since then at the latest, that are not on their way to their
  // Session, and that are not wanted back yet: first those that no Session has mapped, then those
  // unused for longest.
  std::vector<PoolSegmentId> Unused(Instant since = kNever) const;
  // Wants it back, at once if it has no Share; else the serial that its Session is to be asked for.
  // REQUIRES: one of Unused, or granted.
  std::optional<ShareSerial> Recall(PoolSegmentId id, Instant answer_by, Instant now);
  // Ends recalls whose time is over; returns how many went unanswered.
  size_t EndRecalls(Instant now);
  // Bytes of Segments that were recalled and may still be answered for.
  Bytes recalled() const { return shape_.segment_size * recalls_.size(); }

  // --- Shares.
  struct Shared {
    PoolSegmentId id;
    ShareSerial share;
    const Segment* segment;  // good until the export ends
  };
  // Begins to export Segments of a live Pool. LEASE_NOT_FOUND, LEASE_EXPIRED, INVALID_REQUEST if
  // the Pool has no such Segment, or wants it back.
  StatusOr<std::vector<Shared>> BeginExport(SessionId session, PoolId pool,
                                            std::span<const Bytes> offsets);
  // OK if the Session may still get it: LEASE_EXPIRED, CANCELLED.
  Status MaySend(const Shared& shared) const;
  // The memory is not used by the export any more.
  void EndExport(const Shared& shared);
  // Fds of it may have reached the Session, or did not. A Share of which nothing was sent ends with
  // the last of its exports.
  void EndSending(const Shared& shared, bool sent);
  // The Session's word that nothing is mapped under the serial. False if it has no such Share.
  bool CloseShare(SessionId session, ShareSerial share, Instant now);

  std::vector<Segment> TakeReturned();

  // --- Views.
  struct Holding {
    SessionId session;
    PoolId pool;
    PoolBytes bytes;
    bool live = true;
    size_t buffers = 0;
    size_t shares = 0;
  };
  std::vector<Holding> Holdings() const;
  // Of all live Pools: in no Buffer, and granted to nobody.
  Bytes free() const {
    Bytes free;
    for (const auto& [id, entry] : pools_) free += entry.live ? entry.pool.bytes().free() : Bytes();
    return free;
  }
  // Shares of one Session, and of those how many are in quarantine.
  struct Use {
    uint32_t pools = 0;  // live
    uint32_t shares = 0;
    uint32_t quarantined_shares = 0;
  };
  Use UseBy(SessionId session) const;
  // The largest Buffer that some open Session could get once `most` Segments had come.
  Bytes LargestFree(uint64_t most) const;
  // All Pools, by id.
  std::vector<PoolMap> Maps() const;
  // How long Buffers of each kind were held that have been released.
  const std::array<HoldDurations, kAllBufferKinds.size()>& holds() const { return holds_; }

  void Validate() const;

 private:
  struct Entry {
    Pool pool;
    bool live = true;
    Duration ttl{};
    Instant expires;
    std::unordered_set<BufferId> expired_buffers;  // once it is not live
  };
  struct SessionEntry {
    bool open = true;
    PoolId live;
    std::set<PoolId> pools;
  };

  void EndLease(Entry& entry, Instant now);
  // Ends the Share, if there is one.
  void EndShare(PoolSegment& segment);
  // Returns the Segment if nothing holds it any more. A Pool that is over goes with its last one.
  void Settle(PoolSegmentId id);
  void SettleAll(PoolId pool);
  void EraseIfEmpty(PoolId pool);

  const Pool::Shape shape_;
  const Ids ids_;
  std::unordered_map<SessionId, SessionEntry> sessions_;
  std::map<PoolId, Entry> pools_;
  std::unordered_map<ShareSerial, PoolSegmentId> shares_;
  std::set<std::pair<Instant, PoolSegmentId>> recalls_;
  std::vector<Segment> returned_;
  std::array<HoldDurations, kAllBufferKinds.size()> holds_;
};

}  // namespace tenure
