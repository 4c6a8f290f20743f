#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/arena/ledger.h"
#include "core/arena/segment_arena.h"
#include "core/base/clock.h"
#include "core/base/duration_histogram.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/device/device.h"
#include "core/runtime/pool_table.h"
#include "core/store/event_log.h"
#include "core/store/export_queue.h"
#include "core/store/fit.h"
#include "core/store/id_sequences.h"
#include "core/store/leaving_segments.h"
#include "core/store/load.h"
#include "core/store/long_hold.h"
#include "core/store/memory_map.h"
#include "core/store/outbox.h"
#include "core/store/pool_grant.h"
#include "core/store/session.h"
#include "core/store/survivors.h"

namespace tenure {

// Of the options, the times: they may change while the store runs.
struct RuntimeStoreTimes {
  Duration pool_ttl = std::chrono::seconds(30);  // how long unused Segments stay in a Pool
  Duration cache_ttl = kForever;                 // and, after that, with the daemon
  Duration recall_wait = std::chrono::milliseconds(200);
  Duration lease_ttl = std::chrono::seconds(30);  // of a Pool
};

struct RuntimeStoreOptions : RuntimeStoreTimes {
  Bytes capacity;
  Bytes segment_size = MiB(8);  // a power of two
  // As in DeviceStoreOptions.
  bool capacity_includes_survivors = true;
  EventLog* event_log = nullptr;  // null: nobody wants to know
};

// Of requests for room: 0.1 ms to 26 s, times four.
inline constexpr std::array kWaitBounds = {0.0001, 0.0004, 0.0016, 0.0064, 0.0256,
                                           0.1024, 0.4096, 1.6384, 6.5536, 26.2144};
using WaitDurations = DurationHistogram<kWaitBounds>;

// What the runtime arena of one Device did since start. All are monotonic.
struct RuntimeCounters {
  uint64_t buffers_granted = 0;
  uint64_t buffers_released = 0;
  uint64_t segments_granted = 0;
  uint64_t pools_expired = 0;
  uint64_t pools_lost = 0;  // with their Device
  uint64_t recalls_sent = 0;
  uint64_t recalls_unanswered = 0;
  std::map<std::string, uint64_t> refusals;  // by Reason
  WaitDurations waits;                       // of requests that were granted, zero among them
};

// The runtime memory of one Device: its arena, the Pools, and who waits for room. Requests are
// served in the order of their priority and, within one, in which they came: one that lacks bytes
// holds up those behind it that would take bytes too, but not those for which their Session's Pool
// has a place. Bytes are claimed before memory is made. Like the DeviceStore it holds one mutex,
// and never while it creates, destroys, exports or talks. Thread-safe.
class RuntimeStore {
 public:
  // All references outlive the store.
  RuntimeStore(Device& device, const RuntimeStoreOptions& options, const Clock& clock,
               IdSequences& ids, SessionEvents& events);
  ~RuntimeStore();

  const DeviceInfo& device_info() const { return device_.info(); }

  // --- Sessions; as in DeviceStore.
  void OpenSession(SessionId session, const SessionIdentity& identity);
  void RenewSession(SessionId session);
  void CloseSession(SessionId session);
  void EndSession(SessionId session);
  void SetSurviving(SessionId session, Bytes size);

  // --- Buffers.

  // All of it or nothing, out of the Session's Pool, which is opened and grows as needed. Waits for
  // bytes that are on their way back, and for others as long as the request says, within `limits`.
  // CAPACITY, FRAGMENTED, HELD_BY_LEASES, RECLAIM_PENDING, BACKEND, CORDONED, LIMIT,
  // SESSION_UNKNOWN, LEASE_EXPIRED, DEVICE_LOST.
  StatusOr<PoolGrant> Acquire(const PoolRequest& request, const CallLimits& limits);
  // nullopt if this Device has no such Buffer. LEASE_EXPIRED.
  std::optional<Status> Release(SessionId session, BufferId buffer);
  // Gives back granted Segments, which the Session unmaps and says so. All or nothing. nullopt if
  // this Device has no such Pool. INVALID_REQUEST, LEASE_EXPIRED.
  std::optional<Status> Shrink(SessionId session, PoolId pool, std::span<const Bytes> offsets);
  // True while the Session has all that it was granted.
  bool Holds(SessionId session, const PoolGrant& grant) const;

  // --- Shares: as in DeviceStore, a batch of Segments at a time, each with a Share of its own.
  std::optional<StatusOr<ExportId>> BeginExport(SessionId session, PoolId pool,
                                                std::span<const Bytes> offsets);
  std::optional<Status> CheckExport(ExportId id) const;
  bool EndExport(ExportId id, bool sent);
  bool Unmapped(SessionId session, ShareSerial share);

  // --- What operators do; as in DeviceStore.
  void SetTimes(const RuntimeStoreTimes& times);
  // A cordoned Device opens no Pools; those that are there grow as before.
  void SetCordoned(bool cordoned);
  bool cordoned() const;
  // Asks for every Segment of a Pool in which no Buffer lies.
  void RecallIdle();
  // Asks Sessions for what they can do without of Segments that they divide themselves.
  void AskForGranted();
  Bytes Trim(const CallLimits& limits);

  // Expiry, recalls, trimming, and noticing that the Device is lost.
  void Tick();

  // --- Views.
  struct Snapshot {
    Ledger ledger;
    ArenaPeaks peaks;
    uint64_t segments = 0;         // of Pools
    uint64_t cached_segments = 0;  // nobody's
    RuntimeCounters counters;
    uint64_t pools = 0;  // live
    uint64_t buffers = 0;
    uint64_t waiting = 0;
  };
  Snapshot TakeSnapshot() const;
  // The peaks count anew from now on.
  void ForgetPeaks();
  // Every Pool and what lies in it, under one hold of the mutex.
  RuntimeMap TakeMap() const;
  // What has been held far longer than its kind usually is, the longest first.
  std::vector<LongHold> LongHolds() const;
  PoolTable::Use UseBy(SessionId session) const;
  // Sessions that have Buffers or granted Segments here, or keep what they were asked for.
  struct PoolHolder {
    SessionId session;
    SessionIdentity identity;
    Bytes held;
    bool quarantined = false;
  };
  std::vector<PoolHolder> Holders() const;
  // Bytes that Pools could grow by at once.
  Bytes Available() const;
  // Whether the request would be granted, as Acquire decides it now, unless the backend has less
  // than it promised. Leaves everything as it is. REQUIRES: as Acquire, and more than zero bytes.
  DeviceFit Fit(const PoolRequest& request);

  // CHECKs every invariant, and that the ledger balances.
  void Validate() const;

 private:
  // Segments on their way into a Pool.
  struct Waiter;
  struct Growth {
    PoolId pool;
    std::vector<Bytes> offsets;
    SegmentArena::Claim claim;
    Waiter* waiter = nullptr;  // who wants them; null once it has left
  };
  // A call that waits.
  struct Waiter {
    const PoolRequest& request;
    PoolId pool;
    Instant give_up;      // unless bytes are on their way
    Instant asked_until;  // Sessions have been asked for memory, and may still give it
    Growth* growth = nullptr;
    Waiter* behind = nullptr;  // the first call of its Session, unless it is that
    Bytes need;                // that its Pool lacks, as of when it was tried last
    std::optional<StatusOr<PoolGrant>> result;
    CondVar done;
  };
  struct Export {
    SessionId session;
    PoolId pool;
    std::vector<PoolTable::Shared> segments;
  };

  // runtime_store.cc
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // In Buffers, granted, on its way or in quarantine.
  Bytes Allocated() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records what has just happened; fills in when, where, and the ledger.
  void Note(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountPinned() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(const Status& reason, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Recall(std::span<const PoolSegmentId> segments, Outbox& outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunDestroyer();

  // runtime_store_operate.cc
  // Why a cordoned Device opens no Pool for the request.
  Status RefuseCordoned(const PoolRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // runtime_store_room.cc: who waits for room, and how it comes about.
  StatusOr<PoolGrant> Await(Waiter& waiter, const CallLimits& limits)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Serves whom it can.
  void Serve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if its Pool must grow, and does not yet.
  static bool Lacks(const Waiter& waiter) {
    return waiter.growth == nullptr && !waiter.need.zero();
  }
  // Finds a place for what is wanted; the blocks are taken, and nobody's yet.
  static Pool::Placement Place(const PoolRequest& request, Pool& pool);
  static void GiveBack(const PoolRequest& request, Pool& pool, const Pool::Placement& placement);
  // Places what the waiter wants, if it is there.
  Pool::Placement TryPlace(Waiter& waiter, Pool& pool) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Grow(Waiter& waiter, Pool& pool, const std::vector<Bytes>& missing)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Leave(Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks for bytes back that the waiter lacks, if enough can come of it. False if there is nothing
  // left to ask for.
  bool Press(Waiter& waiter, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes that are there, and that come without anybody's doing.
  Bytes BytesToCome() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Promised(const Waiter& waiter) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunGrowths();
  void EndGrowth(Growth& growth, StatusOr<std::vector<Segment>> created)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // runtime_store_refusal.cc: what is said of room.
  // What the request takes of an arena where nothing else is.
  Bytes LeastBytes(const PoolRequest& request) const;
  // As granted.
  Bytes Rounded(const PoolRequest& request) const;
  // The live one; null if there is none.
  Pool* FindPool(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why it cannot be served out of this Pool now.
  Reason ReasonFor(const PoolRequest& request, const Pool& pool, bool promised) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What would help.
  std::string HintFor(Reason reason, const PoolRequest& request, const Pool& pool) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A refusal with all that there is to know. `cause`: what the backend said, or OK.
  Status Explain(Reason reason, const PoolRequest& request, const Pool& pool,
                 const Status& cause) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status Refuse(const Waiter& waiter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status RefuseGrowth(const Waiter& waiter, const Status& cause)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // runtime_store_export.cc
  void RunExports();
  void RunExport(ExportId id, const Export& running);
  Status MaySend(const Export& exported) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As EndExport.
  bool End(ExportId id, bool sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseExports(const Status& reason, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // runtime_store_view.cc
  Ledger LedgerNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  PoolView ViewOf(PoolId pool) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Device& device_;
  const RuntimeStoreOptions options_;
  const Pool::Shape shape_;
  const Clock& clock_;
  SessionEvents& events_;
  IdSequence<ExportId>& export_ids_;

  mutable Mutex mutex_;
  CondVar growth_work_;  // a Pool is to grow, or the store closes
  CondVar export_work_;  // an export waits, or the store closes
  CondVar trimmed_;      // Segments have left
  SegmentArena arena_ ABSL_GUARDED_BY(mutex_);
  PoolTable pools_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<SessionId, SessionIdentity> identities_ ABSL_GUARDED_BY(mutex_);
  Survivors survivors_ ABSL_GUARDED_BY(mutex_);
  Bytes peak_allocated_ ABSL_GUARDED_BY(mutex_);
  RuntimeCounters counters_ ABSL_GUARDED_BY(mutex_);
  std::list<Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);  // in the order in which they are served
  std::deque<std::unique_ptr<Growth>> growths_ ABSL_GUARDED_BY(mutex_);  // the first one is running
  ExportQueue<Export> exports_ ABSL_GUARDED_BY(mutex_);
  LeavingSegments leaving_ ABSL_GUARDED_BY(mutex_);
  Instant next_trim_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  RuntimeStoreTimes times_ ABSL_GUARDED_BY(mutex_);
  bool cordoned_ ABSL_GUARDED_BY(mutex_) = false;
  Status lost_ ABSL_GUARDED_BY(mutex_);  // DEVICE_LOST once the Device is

  std::vector<std::thread> threads_;
};

}  // namespace tenure
