#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <tenure/v1/handle.pb.h>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/deadline.h"
#include "client/cpp/handle_socket.h"
#include "client/cpp/held_lease.h"
#include "client/cpp/job_thread.h"
#include "client/cpp/lazy_cuda_device.h"
#include "client/cpp/mailbox.h"
#include "client/cpp/mapping.h"
#include "client/cpp/region_table.h"
#include "client/cpp/session_pools.h"
#include "client/cpp/survivors.h"

namespace tenure::client {

// One session on the handle socket: a thread of its own that sends heartbeats, answers recalls,
// notes lost leases, and fetches memory. All packets are sent by that thread, in the order
//
//   unmap, then Unmapped, then a FetchShare for the same region,
//
// so that an Unmapped never speaks of a newer mapping. A recall is answered at once unless a lease
// object uses the region. An acquire under way does not hold the answer back: it may be the very
// call that needs the room, and if it turns out to name the region, that is fetched again.
//
// A device's driver takes its time, and may never come back: its calls are made in a thread of that
// device, and the memory of each device is fetched beside that of the others, so that neither
// heartbeats nor the host nor another device waits for it. What the driver does not unmap is never
// said to be unmapped: the daemon keeps it in quarantine until this process has ended, the region
// is stuck, and who asks for it again is told why.
//
// One mutex; nothing waits, maps or unmaps under it. Thread-safe.
class HandleSession {
 public:
  // Tells the daemon of the survivors, now and when they change; once the session is over, what is
  // still mapped of it is among them. UNAVAILABLE if there is no daemon, FAILED_PRECONDITION if it
  // speaks another version.
  static absl::StatusOr<std::unique_ptr<HandleSession>> Open(const std::string& path,
                                                             const std::string& program,
                                                             const std::string& instance,
                                                             Deadline deadline,
                                                             std::shared_ptr<Survivors> survivors);
  // Unmaps everything, says so, says goodbye; takes a second at most if the daemon does not listen,
  // and five if a device's driver does not come back: what that has not unmapped stays a survivor.
  // REQUIRES: every lease was dropped, and no call is under way.
  ~HandleSession();

  const std::string& boot_id() const { return boot_id_; }
  const std::string& token() const { return token_; }
  uint64_t session_id() const { return session_id_; }

  // OK, or UNAVAILABLE with why the session is over.
  absl::Status Alive() const;

  // Around every call that may grant a lease, up to its Hold.
  void BeginGrant();
  void EndGrant();

  // Takes a lease that was just granted into care, and gives what its region is mapped by, which is
  // there until the lease is dropped: fetched first, unless it is mapped already. Null for a region
  // of no bytes. After an error nothing is held.
  absl::StatusOr<const Mapping*> Hold(const std::shared_ptr<HeldLease>& lease, Deadline deadline);
  // The lease's object reads no more. Call before the daemon is told, so that its recall finds the
  // region idle.
  void Drop(const HeldLease& lease);
  // False once the lease is lost, or as long without the daemon's word that it may be.
  bool Valid(HeldLease& lease);

  size_t mapped_region_count() const;

  // --- Pools: see handle_session_pool.cc.

  // Maps segments that were granted, into the range of their pool, which the first call reserves.
  // All or nothing: what is not mapped in the end is given back to the daemon.
  absl::StatusOr<std::shared_ptr<PoolMapping>> MapSegments(const PoolSpec& pool,
                                                           std::vector<uint64_t> offsets,
                                                           Deadline deadline,
                                                           const std::stop_token& cancel = {});
  // Maps what is not mapped yet of the segments that a buffer lies in, which was granted. Segments
  // that some buffer lies in are not wanted back.
  absl::StatusOr<std::shared_ptr<PoolMapping>> MapBuffer(const PoolSpec& pool, uint64_t offset,
                                                         uint64_t bytes, Deadline deadline,
                                                         const std::stop_token& cancel = {});
  // Unmaps segments and says so, by which the daemon has them back. Does not wait.
  void UnmapSegments(uint64_t pool_id, const std::vector<uint64_t>& offsets);
  // The caller needs a pool no more. If it is lost, and nobody listens any more, nobody recalls what
  // is still mapped of it: that is unmapped. Does not wait.
  void LeavePool(uint64_t pool_id);
  // False if the pool is lost, and nothing will be heard of it. REQUIRES: it has been mapped.
  bool Listen(uint64_t pool_id, std::weak_ptr<PoolListener> listener);
  // Tells the daemon of segments that this session was granted and has never mapped. Called with a
  // lock held; must not wait. None at first.
  using GiveBack = std::function<void(uint64_t pool_id, const std::vector<uint64_t>& offsets)>;
  void SetGiveBack(GiveBack give_back);

  // True in the session's own thread, which calls listeners.
  bool InThread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Lets go of the connection in a forked child, where the thread does not exist.
  void AbandonAfterFork() { socket_.Close(); }

 private:
  // Memory on its way. What comes before `done` belongs to the thread alone, and to its jobs.
  struct Fetch {
    enum class Step { kWorking, kReady, kAsked };

    std::shared_ptr<const HeldLease> lease;
    // A job for it is under way; the daemon is to be asked for the next batch; it has been asked.
    Step step = Step::kWorking;
    std::shared_ptr<Mapping> mapping;  // once reserved
    uint32_t next_segment = 0;
    uint64_t share_serial = 0;  // known from the first batch on

    bool done = false;    // guarded by mutex_
    absl::Status status;  // guarded by mutex_, set once done
  };

  // Segments of a pool on their way, as Fetch.
  struct PoolFetch {
    using Step = Fetch::Step;

    PoolSpec pool;
    std::vector<uint64_t> offsets;
    bool of_buffer = false;  // other buffers may lie there too, and it is not granted as a whole
    Step step = Step::kWorking;
    std::shared_ptr<PoolMapping> mapping;  // reserved just now
    size_t mapped = 0;                     // of the offsets, from the first on
    size_t given_back = 0;                 // after those
    std::vector<uint64_t> coming;          // serials of the batch that is being mapped
    bool recalled = false;                 // one of them was

    // The offsets that come next.
    std::vector<uint64_t> NextBatch() const;

    bool abandoned = false;  // guarded by mutex_: nobody waits any more
    bool done = false;       // guarded by mutex_
    absl::Status status;     // guarded by mutex_, set once done
  };

  // Where the calls about one device that waits are made. The jobs alone touch the device.
  struct Lane {
    JobThread jobs;
    std::shared_ptr<LazyCudaDevice> cuda;
  };

  HandleSession(HandleSocket socket, std::shared_ptr<Mailbox> mailbox, const v1::Welcome& welcome,
                Instant welcomed_at, std::shared_ptr<Survivors> survivors, uint64_t survivors_told);

  void Start();
  // False if it is time to end, or the connection is over.
  bool Step();
  // Goes on unmapping once the connection is over. False if it is time to end.
  bool Linger();
  void Run();
  void ReadMail();
  // Until `next`, if any, or something is to be unmapped again; -1 if it is neither.
  int MillisUntil(std::optional<Instant> next) const;
  void SendHeartbeatIfDue(Instant now);
  void TellOfSurvivors();
  Instant NextHeartbeat() const;
  // REQUIRES: mutex_ is held.
  Duration HeartbeatInterval() const;
  void Close();
  absl::Status ReceiveAll();
  absl::Status OnPacket(ReceivedPacket received);
  absl::Status OnShareBatch(const v1::ShareBatch& batch, ReceivedPacket& packet);
  void OnHeartbeatReply(uint64_t sequence);
  void StartFetches();
  void Reserve(const std::shared_ptr<Fetch>& fetch);
  // After a job for it.
  void ContinueFetch(const std::shared_ptr<Fetch>& fetch, absl::Status status);
  void FinishFetch(const std::shared_ptr<Fetch>& fetch, absl::Status status);
  // Null if the daemon is asked for nothing.
  std::shared_ptr<Fetch> Asked() const;
  // Asks the daemon for the next batch, unless it has not answered the last time.
  void AskNext();
  void UnmapIdle();
  // REQUIRES: the device is no host's.
  std::shared_ptr<LazyCudaDevice> CudaOf(const LeasedDevice& device);
  void Unmap(std::vector<RegionTable::Taken> taken);
  // What a device could not unmap for the moment, once that is over.
  void UnmapAgain();
  void Again(std::function<void()> unmap);
  void OnUnmapped(RegionTable::Taken taken, const absl::Status& status);
  void TellUnmapped();
  // Whether a device that waits has work, or will have.
  bool AtWork() const { return jobs_under_way_ > 0 || !unmap_again_.empty(); }
  // Has `work` done, here unless it `waits` for the device, and then `done` called with what came
  // of it, in the session's thread.
  void Perform(const std::string& device, bool waits, std::function<absl::Status()> work,
               std::function<void(absl::Status)> done);
  // REQUIRES: mutex_ is held, or the thread has ended.
  void TellSurvivors();

  // handle_session_pool.cc
  void StartPoolFetches();
  absl::StatusOr<std::shared_ptr<PoolMapping>> Await(const std::shared_ptr<PoolFetch>& fetch,
                                                     Deadline deadline,
                                                     const std::stop_token& cancel);
  void Reserve(const std::shared_ptr<PoolFetch>& fetch);
  // Begins with the segments of a pool whose range is reserved.
  void BeginPoolFetch(const std::shared_ptr<PoolFetch>& fetch, absl::Status status);
  void ContinuePoolFetch(const std::shared_ptr<PoolFetch>& fetch, absl::Status status);
  void FinishPoolFetch(const std::shared_ptr<PoolFetch>& fetch, absl::Status status);
  // Null if the daemon is asked for no segments of a pool.
  std::shared_ptr<PoolFetch> AskedPool() const;
  // REQUIRES: the fetch is ready, and the daemon is asked for nothing.
  void AskForPool(PoolFetch& fetch);
  void OnBatchMapped(const std::shared_ptr<PoolFetch>& fetch, const v1::PoolBatch& batch,
                     size_t tried, absl::Status status);
  absl::Status OnPoolBatch(const v1::PoolBatch& batch, ReceivedPacket& packet);
  absl::Status OnPoolRefused(const v1::PoolRefused& refused);
  void OnPoolRecall(const v1::PoolRecall& recall);
  void OnMemoryWanted(const v1::MemoryWanted& wanted);
  void OnPoolLost(const v1::PoolLost& lost);
  static void LosePools(const SessionPools::Listeners& listeners, const std::string& reason);
  // What the session's own users do not need any more.
  void ReturnSegments();
  // Everything, at the end.
  void UnmapPools();
  void UnmapSegment(const SessionPools::Segment& segment);
  void SweepPools(Instant now);
  // Has `what` told where the pool's device may be waited for, and then `done` called here.
  void Tell(const SessionPools::Listening& whom, std::function<void(PoolListener&)> what,
            std::function<void()> done);

  void Queue(const v1::ClientPacket& packet);
  absl::Status Flush();
  void Lose(const absl::Status& why);

  // Constant.
  const std::string boot_id_;
  const std::string token_;
  const uint64_t session_id_;
  const Duration heartbeat_interval_;
  const std::shared_ptr<Mailbox> mailbox_;
  const std::shared_ptr<Survivors> survivors_;

  // Of the thread alone.
  HandleSocket socket_;
  std::deque<std::string> outbound_;
  std::map<std::string, std::shared_ptr<Fetch>> fetches_;  // under way, one of each device
  std::vector<uint64_t> unmapped_;                         // serials that are still to be told
  std::map<std::string, Lane> lanes_;                      // by device
  size_t jobs_under_way_ = 0;
  std::deque<std::pair<Instant, std::function<void()>>> unmap_again_;  // the soonest first
  std::map<std::string, std::shared_ptr<PoolFetch>> pool_fetches_;     // under way, as fetches_
  Instant next_sweep_ = Instant::max();                                // while there is a pool
  std::set<PoolListener*> sweeping_;                                   // told and not done yet
  uint64_t heartbeat_sequence_ = 0;
  uint64_t survivors_told_;  // the version that the daemon knows
  Instant last_heartbeat_;
  std::deque<std::pair<uint64_t, Instant>> unanswered_;  // heartbeats: sequence, sent at
  bool goodbye_said_ = false;
  std::optional<Instant> close_by_;  // once closing
  std::thread thread_;

  // A moment before the daemon last renewed all leases.
  std::atomic<Instant> renewed_at_;
  std::atomic<bool> lost_ = false;
  std::atomic<bool> closing_ = false;

  mutable std::mutex mutex_;
  std::condition_variable fetched_;
  absl::Status lost_status_;                                 // guarded by mutex_, set before lost_
  HeldLeases leases_;                                        // guarded by mutex_
  RegionTable regions_;                                      // guarded by mutex_
  std::deque<std::shared_ptr<Fetch>> fetch_queue_;           // guarded by mutex_
  SessionPools pools_;                                       // guarded by mutex_
  std::deque<std::shared_ptr<PoolFetch>> pool_queue_;        // guarded by mutex_
  std::vector<std::pair<uint64_t, uint64_t>> pool_returns_;  // guarded by mutex_; pool, offset
  GiveBack give_back_;                                       // guarded by mutex_
};

}  // namespace tenure::client
