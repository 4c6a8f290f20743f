#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tenure/v1/handle.pb.h>
#include <thread>
#include <utility>
#include <vector>

#include "client/cpp/deadline.h"
#include "client/cpp/handle_socket.h"
#include "client/cpp/held_lease.h"
#include "client/cpp/mapping.h"
#include "client/cpp/region_table.h"
#include "client/cpp/survivors.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// One session on the handle socket: a thread of its own that sends heartbeats, answers recalls,
// notes lost leases, and fetches memory. All packets are sent by that thread, in the order
//
//   munmap, then Unmapped, then a FetchShare for the same region,
//
// so that an Unmapped never speaks of a newer mapping. A recall is answered at once unless a lease
// object uses the region. An acquire under way does not hold the answer back: it may be the very
// call that needs the room, and if it turns out to name the region, that is fetched again.
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
  // Unmaps everything, says so, says goodbye; takes a second at most if the daemon does not listen.
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

  // Takes a lease that was just granted into care, and gives the address where its region is
  // mapped: fetched first, unless it is mapped already. Null for a region of no bytes. After an
  // error nothing is held.
  absl::StatusOr<const std::byte*> Hold(const std::shared_ptr<HeldLease>& lease, Deadline deadline);
  // The lease's object reads no more. Call before the daemon is told, so that its recall finds the
  // region idle.
  void Drop(const HeldLease& lease);
  // False once the lease is lost, or as long without the daemon's word that it may be.
  bool Valid(HeldLease& lease);

  size_t mapped_region_count() const;

  // Lets go of the connection in a forked child, where the thread does not exist.
  void AbandonAfterFork() { socket_.Close(); }

 private:
  // Memory on its way. What comes before `done` belongs to the thread alone.
  struct Fetch {
    uint64_t lease_id = 0;
    uint64_t region_id = 0;
    uint64_t size_bytes = 0;
    uint32_t next_segment = 0;
    uint64_t share_serial = 0;  // known from the first batch on
    Mapping mapping;

    bool done = false;    // guarded by mutex_
    absl::Status status;  // guarded by mutex_, set once done
  };

  HandleSession(HandleSocket socket, UniqueFd wake, const v1::Welcome& welcome, Instant welcomed_at,
                std::shared_ptr<Survivors> survivors, uint64_t survivors_told);

  void Start();
  void Wake();
  // False if it is time to end.
  bool Step();
  void Run();
  int WaitMillis(Instant now) const;
  void SendHeartbeatIfDue(Instant now);
  void TellOfSurvivors();
  Instant NextHeartbeat() const;
  // REQUIRES: mutex_ is held.
  Duration HeartbeatInterval() const;
  void SayGoodbye();
  absl::Status ReceiveAll();
  absl::Status OnPacket(ReceivedPacket received);
  absl::Status OnShareBatch(const v1::ShareBatch& batch, ReceivedPacket& packet);
  absl::Status MapBatch(const v1::ShareBatch& batch, ReceivedPacket& packet);
  void OnHeartbeatReply(uint64_t sequence);
  void FinishFetch(absl::Status status);
  void StartNextFetch();
  void SendFetch();
  void UnmapAndTell(std::vector<RegionTable::Taken> taken);
  // Once the session is over: unmaps, and counts what is left among the survivors.
  void UnmapSurvivors(std::vector<RegionTable::Taken> of_no_use);
  void Queue(const v1::ClientPacket& packet);
  absl::Status Flush();
  void Lose(const absl::Status& why);

  // Constant.
  const std::string boot_id_;
  const std::string token_;
  const uint64_t session_id_;
  const Duration heartbeat_interval_;
  UniqueFd wake_;
  const std::shared_ptr<Survivors> survivors_;

  // Of the thread alone.
  HandleSocket socket_;
  std::deque<std::string> outbound_;
  std::shared_ptr<Fetch> fetch_;  // the one under way
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
  absl::Status lost_status_;                        // guarded by mutex_, set before lost_
  HeldLeases leases_;                               // guarded by mutex_
  RegionTable regions_;                             // guarded by mutex_
  std::deque<std::shared_ptr<Fetch>> fetch_queue_;  // guarded by mutex_
};

}  // namespace tenure::client
