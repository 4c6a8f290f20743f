#pragma once

#include <atomic>
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
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/device/device.h"
#include "core/lease/lease_table.h"
#include "core/model/model_table.h"
#include "core/region/region_table.h"
#include "core/region/victims.h"
#include "core/store/counters.h"
#include "core/store/event_log.h"
#include "core/store/export_queue.h"
#include "core/store/fit.h"
#include "core/store/id_sequences.h"
#include "core/store/leaving_segments.h"
#include "core/store/load.h"
#include "core/store/load_job.h"
#include "core/store/long_hold.h"
#include "core/store/memory_map.h"
#include "core/store/outbox.h"
#include "core/store/placement.h"
#include "core/store/session.h"
#include "core/store/share_export.h"
#include "core/store/survivors.h"
#include "core/transfer/copy_engine.h"

namespace tenure {

// Of the options, the times: they may change while the store runs.
struct DeviceStoreTimes {
  Duration retain_ttl = std::chrono::minutes(10);  // kForever: until the room is needed
  Duration cache_ttl = kForever;                   // how long unused Segments are kept
  Duration recall_wait = std::chrono::milliseconds(200);
  Duration idle_unload_after = kForever;  // kForever: idle models are never unloaded
  Duration default_lease_ttl = std::chrono::seconds(30);
};

struct DeviceStoreOptions : DeviceStoreTimes {
  Bytes weights_capacity;
  Bytes segment_size = MiB(64);
  bool single_segment = false;  // a Region is one Segment
  int concurrent_loads = 2;
  // False if the capacity was taken from what was free while survivors held theirs.
  bool capacity_includes_survivors = true;
  EventLog* event_log = nullptr;  // null: nobody wants to know
};

// The weights of one Device: its arena, Regions, models, leases, and the workers that fill them. It
// holds one mutex, and never while it copies, creates, destroys, exports or talks: the gap is
// guarded by the Loading state, by claimed bytes, or by the Region's count of exports. Thread-safe.
//
// What must happen by itself happens in Tick.
class DeviceStore {
 public:
  // All references outlive the store.
  DeviceStore(Device& device, const DeviceStoreOptions& options, const Clock& clock,
              const CopyEngine& copy_engine, IdSequences& ids, SessionEvents& events);
  // Abandons running loads and waits for them.
  ~DeviceStore();

  const DeviceInfo& device_info() const { return device_.info(); }

  // --- Sessions; see LeaseTable.
  void OpenSession(SessionId session, const SessionIdentity& identity);
  void RenewSession(SessionId session);
  void CloseSession(SessionId session);
  void EndSession(SessionId session);
  // What the Session's process still maps of this Device's memory from before the daemon's start;
  // replaces what was said before. It is not there to be given out until the process has ended.
  // Does nothing if the capacity was measured with that memory already in use.
  void SetSurviving(SessionId session, Bytes size);

  // --- Models.

  // What placement must know. `layout` may be null as long as it is not known.
  Proximity ProximityOf(const std::string& name, const ContentId& content,
                        const Layout* layout) const;

  // Answers at once if the content is loaded under this name, or retained. nullopt: it must be
  // loaded. `started` is when the call came in.
  StatusOr<std::optional<LoadResult>> TryWithoutCopy(const LoadRequest& request,
                                                     const ContentId& content, Instant started);
  // Loads, or joins a load of the same name and content. Waits for its end within `limits`; a load
  // that nobody waits for any more is abandoned. RECLAIM_PENDING if it still lacked room by then.
  // CORDONED.
  StatusOr<LoadResult> Load(const LoadRequest& request, PreparedModel model,
                            const CallLimits& limits);

  // Of the current revision, or of one that is already on its way out, which changes nothing.
  // MODEL_NOT_FOUND. A model that is still loading stops doing so.
  StatusOr<UnloadResult> Unload(const std::string& name, Revision revision);

  // --- Leases.

  // MODEL_NOT_FOUND, MODEL_UNAVAILABLE (still loading), MODEL_DRAINING, and as LeaseTable::Grant.
  StatusOr<GrantedLease> Acquire(SessionId session, const std::string& name,
                                 std::optional<Duration> ttl);
  // nullopt if this Device has no such lease.
  std::optional<Status> Release(SessionId session, LeaseId lease);
  struct Renewal {
    StatusOr<Lease> lease;
    Generation generation;  // of the Region now
  };
  std::optional<Renewal> Renew(SessionId session, LeaseId lease);
  bool IsLive(SessionId session, LeaseId lease) const;

  // --- Shares. An export runs on a thread of the Device, which may take long or for ever, while
  // nobody waits:
  //
  //   BeginExport --> SessionEvents::OnExported --> CheckExport --> send the fds --> EndExport
  //
  // Whatever came of it, a Share under which nothing was sent ends with the last of its exports.

  // Registers the Share, and has at most `limit` Segments from `first` on exported. Comes to its
  // end with OnExported, unless EndExport is faster. nullopt if this Device has no such lease.
  // LEASE_EXPIRED, INVALID_REQUEST for an index beyond the Region, DEVICE_LOST; and in OnExported
  // also BACKEND, DRIVER, LEASE_NOT_FOUND and CANCELLED, as CheckExport.
  std::optional<StatusOr<ExportId>> BeginExport(SessionId session, LeaseId lease, uint32_t first,
                                                uint32_t limit);
  // Whether a batch may still be sent: LEASE_EXPIRED, or LEASE_NOT_FOUND once it was released;
  // CANCELLED if the Share has ended; DEVICE_LOST. The Share then stays until EndExport, unless the
  // Session ends or says that it unmapped it. nullopt if no such export has begun, or it has ended.
  std::optional<Status> CheckExport(ExportId id) const;
  // Nobody waits for it any more. `sent`: the Session may have got its fds. False if there is no
  // such export, or it has ended. REQUIRES: it was exported, if it was sent.
  bool EndExport(ExportId id, bool sent);
  // False if the Session has no such Share here.
  bool Unmapped(SessionId session, ShareSerial share);

  // --- What operators do.

  // What is retained by the store's own TTL is kept as long as if it had always been the new one;
  // leases that are there keep theirs.
  void SetTimes(const DeviceStoreTimes& times);
  // A cordoned Device takes nothing new: no load, adoption or revival. What is online there goes on
  // and is leased as before, and loads under way come to their end.
  void SetCordoned(bool cordoned);
  // Takes every model that is online offline, as Unload does.
  void UnloadAll();
  // Asks every Session for what it has mapped here without a lease.
  void RecallIdle();
  // True while a Session has anything mapped here, leased or not.
  bool mapped() const;
  // Gives cached Segments back to the backend, with `retained` those of Retained Regions too, whose
  // idle Shares are recalled, and waits for that within `limits`. Returns what was given back.
  Bytes Trim(bool retained, const CallLimits& limits);

  // --- What must happen by itself: expiry, recalls, reclaim, trimming, and noticing that the
  // Device is lost: then loads and leases end with DEVICE_LOST, and nothing is granted any more.
  void Tick();

  // --- Views.
  std::vector<ModelView> Models() const;
  // The current revision if `revision` is not valid, else the last one there was.
  StatusOr<ModelView> GetModel(const std::string& name, Revision revision) const;
  // nullopt unless a load of the name is running or waiting.
  std::optional<LoadProgress> ProgressOf(const std::string& name) const;
  // Whether a load of such a model under a new name would find room, in place of what may be
  // adopted or beside what is there; one of `size` bytes, beside what is there. As Load decides it
  // now, unless the backend has less than it promised. Takes nothing.
  DeviceFit Fit(const Layout& layout) const;
  DeviceFit Fit(Bytes size) const;
  // OK while the Device serves, else DEVICE_LOST.
  Status Lost() const;
  // Grows with every change that a watcher may want to see.
  uint64_t change_count() const { return changes_.load(std::memory_order_acquire); }

  struct Snapshot {
    Ledger ledger;
    ArenaPeaks peaks;
    uint64_t segments = 0;         // of Regions
    uint64_t cached_segments = 0;  // nobody's
    StoreCounters counters;
    BackendCounters backend;
    std::array<uint64_t, kRegionStates> models{};
    uint64_t live_leases = 0;
    uint64_t queued_loads = 0;  // waiting for their turn
    uint64_t running_loads = 0;
    Bytes foreign;  // of the Device, used by others
    Status lost;    // see Lost
    bool cordoned = false;
  };
  Snapshot TakeSnapshot() const;
  // The peaks count anew from now on.
  void ForgetPeaks();
  // Every Region and who holds it, under one hold of the mutex.
  WeightsMap TakeMap() const;
  // What has been held far longer than its kind usually is, the longest first.
  std::vector<LongHold> LongHolds() const;
  RegionUse UseBy(SessionId session) const;

  // CHECKs every invariant of every table, and that the ledger balances.
  void Validate() const;
  // Returns when no load runs and no Segment is leaving. For tests and for shutting down.
  void WaitUntilQuiet();

 private:
  // The memory that a job got: a new Region, still without some of its Segments, or an adopted one.
  struct Placement {
    RegionId region;  // not valid: none yet
    bool adopted = false;
    std::string overwritten;    // `name@revision` of what an adopted Region held
    SegmentArena::Claim claim;  // of a new Region
    std::vector<bool> created;  // of its Segments: which were not there before
  };

  struct Export {
    Share share;  // as it was when the export began
    LeaseId lease;
    uint32_t segment_count = 0;         // of the Region
    std::span<const Segment> segments;  // to be exported; the Region's count keeps them
  };

  // device_store.cc: what happens by itself, and on the way out.
  void TakeOffline(RegionId region) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StartRetention(RegionId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reclaim(RegionId region, ReclaimCause cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SendRecalls(RegionId region, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetSurvivor(SessionId session, Bytes size) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes over what the Device says; with every end of a destruction, so that no byte is free
  // meanwhile.
  // Records what has just happened; fills in when, where, and the ledger.
  void Note(Event event) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The same, of a Region that may be gone.
  void Note(EventKind kind, RegionId region, SessionId session = {})
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountPinned() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Changed() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunDestroyer();

  // device_store_operate.cc
  // Why a cordoned Device does not take a model of `need` bytes.
  Status RefuseCordoned(const std::string& asked_device, Bytes need) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reclaims what is retained and mapped by nobody, and recalls what is mapped idly. False if there
  // was nothing to recall.
  bool ReclaimRetained(Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_loss.cc
  void Lose(const Status& reason, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_load.cc: joining, waiting, and bringing online what is there already.
  StatusOr<std::optional<LoadResult>> BringWithoutCopy(const LoadRequest& request,
                                                       const ContentId& content,
                                                       const LoadPhases& phases)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  StatusOr<LoadResult> Await(const std::shared_ptr<LoadJob>& job, LoadWaiter& waiter,
                             const CallLimits& limits) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::shared_ptr<LoadJob> FindJob(const std::string& name, const ContentId& content) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MakeCurrent(RegionId region, const ContentId& content) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountLoad(SessionId session, RegionId region, const LoadResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_worker.cc: one job from its turn to its end.
  void RunLoads();
  std::shared_ptr<LoadJob> TakeJob() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunJob(LoadJob& job);
  Status Place(LoadJob& job, Placement& placement, LoadResult& result);
  // Destroys what the claim evicted. False if some of that is pinned and the claim has no room
  // beside it: nothing of the placement is left then.
  bool Vacate(LoadJob& job, Placement& placement);
  Status FillIn(LoadJob& job, Placement& placement, LoadResult& result);
  Status Create(Placement& placement, LoadResult& result);
  void Publish(LoadJob& job, const Placement& placement, LoadResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the Segments that the job created, for the caller to destroy once it holds no lock.
  std::vector<Segment> Undo(const Placement& placement) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Tells the waiters. `attempt` is as far as the load came.
  void Fail(LoadJob& job, const Placement& placement, const LoadResult& attempt, Status error)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_room.cc: room for a new Region.
  const Region* FindAdoptable(const Layout& layout) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<VictimCandidate> Candidates() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IdleTooLong(const Region& region) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Claims room for the job's model; lets go of the mutex while it waits.
  StatusOr<SegmentArena::Claim> TakeRoom(LoadJob& job, LoadResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True if victims are mapped: nothing may be reclaimed before they have answered.
  bool RecallVictims(const std::vector<VictimCandidate>& victims, Outbox& outbox)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReclaimVictims(const std::vector<VictimCandidate>& victims, LoadResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Bytes that become available without anybody's doing: on their way back to the backend, or with
  // a load that was abandoned.
  Bytes BytesToCome() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whom to reclaim so that, once what is on its way has come too, `need` bytes are there; nobody
  // if those suffice. nullopt if all together do not.
  std::optional<std::vector<VictimCandidate>> VictimsFor(Bytes need) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True while nothing but want of room keeps the job from being placed.
  bool AwaitsRoom(const LoadJob& job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_refusal.cc: what is said of room.
  std::vector<std::string> HoldersByModel() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What all Candidates have.
  Bytes Reclaimable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The largest model that TakeRoom would find room for, sooner or later.
  Bytes LargestLoadable() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why `need` bytes are not there.
  Reason ReasonFor(Bytes need) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What would help, as this store is configured.
  std::string HintFor(Reason reason, Bytes need) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A refusal of `need` bytes with all that there is to know. `cause`: what the backend said, or
  // OK.
  Status Explain(Reason reason, Bytes need, const Status& cause) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status RefuseRoom(Bytes need) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  DeviceFit FitBytes(Bytes size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_lease.cc
  StatusOr<GrantedLease> Grant(SessionId session, const Model& model, std::optional<Duration> ttl)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UsesChanged(const std::vector<RegionId>& regions) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void UseChanged(RegionId id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_export.cc
  void RunExports();
  void RunExport(ExportId id, const Export& running);
  Status MaySend(const Export& exported) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // As EndExport.
  bool End(ExportId id, bool sent) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Ends those that the Device has not come to an end with.
  void LoseExports(const Status& reason, Outbox& outbox) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // device_store_view.cc
  const Model* FindModel(const std::string& name, Revision revision) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Status ModelNotFound(const std::string& name, Revision revision) const;
  Ledger LedgerNow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  ModelView ViewOf(const Model& model) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::vector<Holder> HoldersOf(RegionId region) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // memory_map.cc
  RegionMap MapOf(const Region& region, Instant now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Device& device_;
  const DeviceStoreOptions options_;
  const Clock& clock_;
  const CopyEngine& copy_engine_;
  SessionEvents& events_;
  IdSequence<ExportId>& export_ids_;

  std::atomic<uint64_t> changes_ = 0;

  mutable Mutex mutex_;
  CondVar changed_;      // any table changed
  CondVar work_;         // a job was queued, or the store closes
  CondVar export_work_;  // an export waits, or the store closes
  SegmentArena arena_ ABSL_GUARDED_BY(mutex_);
  RegionTable regions_ ABSL_GUARDED_BY(mutex_);
  ModelTable models_ ABSL_GUARDED_BY(mutex_);
  LeaseTable leases_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<SessionId, SessionIdentity> identities_ ABSL_GUARDED_BY(mutex_);
  Survivors survivors_ ABSL_GUARDED_BY(mutex_);
  StoreCounters counters_ ABSL_GUARDED_BY(mutex_);
  HoldDurations lease_holds_ ABSL_GUARDED_BY(mutex_);  // of leases that were released
  std::vector<std::shared_ptr<LoadJob>> jobs_ ABSL_GUARDED_BY(mutex_);  // in the order they came in
  ExportQueue<Export> exports_ ABSL_GUARDED_BY(mutex_);
  LeavingSegments leaving_ ABSL_GUARDED_BY(mutex_);
  DeviceStoreTimes times_ ABSL_GUARDED_BY(mutex_);
  bool cordoned_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  Status lost_ ABSL_GUARDED_BY(mutex_);  // DEVICE_LOST once the Device is

  std::vector<std::thread> threads_;
};

}  // namespace tenure
