#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/store/session.h"
#include "core/store/store.h"
#include "server/handle_connection.h"
#include "server/handle_inbox.h"
#include "server/handle_options.h"
#include "server/session_registry.h"
#include "server/socket_listener.h"

namespace tenure {

// Serves the handle socket (proto/tenure/v1/handle.proto) on one thread that never waits for a
// client: it takes connections, opens a Session for each that says hello, hands out the memory of
// leases, passes on what the Store has to say, and ends a Session as soon as its process has ended.
//
// Construct it, give it to the Store as its SessionEvents, then Start it with that Store.
// SessionEvents and what is said to Sessions may be called from any thread at any time and only
// post: what is posted before Start or after Stop is dropped. Start, Stop and the destructor belong
// to one thread.
class HandleServer final : public SessionEvents {
 public:
  // Both outlive the server. `clock` is the one by which sockets are waited for: a real one.
  HandleServer(SessionRegistry& registry, const Clock& clock);
  ~HandleServer() override;

  // Listens, and serves from then on. A socket that an earlier daemon left at the path is replaced:
  // the caller holds the directory's lock. INVALID_REQUEST for a path that is too long or names
  // something that is no socket, BACKEND for what the machine refuses. `store` outlives the run
  // until Stop. REQUIRES: not started.
  Status Start(Store& store, HandleServerOptions options);

  // Tells every Session that the daemon stops within `deadline`.
  void Drain(Duration deadline);

  // Asks one Session to let go of what it can spare, of which there is some on the device.
  void AskToRelease(SessionId session, const std::string& device, Duration deadline);
  // What Sessions are told that open from now on.
  void SetHeartbeatInterval(Duration interval);

  // Tells every Session that the daemon stops now, and closes all connections and the socket. The
  // Sessions stay as they are in the Store: their processes live and may read.
  void Stop();

  const HandleCounters& counters() const { return counters_; }

  // SessionEvents.
  void OnRecall(SessionId session, ShareSerial share, RegionId region,
                Duration answer_within) override;
  void OnLeaseLost(SessionId session, LeaseId lease, RegionId region, Reason reason) override;
  void OnPoolRecall(SessionId session, PoolId pool, std::span<const ShareSerial> shares,
                    Duration answer_within) override;
  void OnMemoryWanted(SessionId session, PoolId pool, Bytes bytes) override;
  void OnPoolLost(SessionId session, PoolId pool, Reason reason) override;
  void OnExported(SessionId session, ExportId id, StatusOr<ExportedBatch> batch) override;

 private:
  using ConnectionId = uint64_t;  // never reused, so that a late event of the kernel finds nothing
  struct Served {
    std::unique_ptr<HandleConnection> connection;
    bool socket_watched = true;
    bool watched_for_writing = false;
    Instant deadline = kNever;  // as it is in deadlines_
  };

  void Run();
  void Dispatch(uint64_t key, uint32_t events);
  void Accept();
  void Add(UniqueFd socket);
  void StopListeningUntil(Instant again);
  void RunDeadlines();
  void TakePosts();
  // Does nothing for a Session that has no connection any more.
  void Tell(SessionId session, const std::function<void(HandleConnection&)>& what);
  void Deliver(const PostedPacket& post);
  void Deliver(const PostedExport& post);
  void Deliver(const PostedDrain& post);
  void Deliver(const PostedHeartbeatInterval& post);
  void Deliver(const PostedStop& post);
  // Brings what is watched and indexed in line with the connection's state after anything was done
  // to it; a finished connection is destroyed.
  void Settle(ConnectionId id);
  bool Watch(int operation, int fd, uint64_t key, uint32_t events);
  int MillisecondsToWait() const;

  SessionRegistry& registry_;
  const Clock& clock_;

  HandleCounters counters_;
  HandleInbox inbox_;

  HandleServerOptions options_;
  std::string no_session_;  // what is said to whom there is no fd for
  std::thread thread_;

  // Of the serving thread alone while it runs.
  std::optional<SocketListener> listener_;
  std::vector<char> buffer_;
  std::optional<HandleSurroundings> surroundings_;
  UniqueFd epoll_;
  ConnectionId last_id_ = 0;
  std::unordered_map<ConnectionId, Served> connections_;
  std::unordered_map<SessionId, ConnectionId> sessions_;
  std::set<ConnectionId> greeting_;  // have not said hello; the oldest first
  std::set<std::pair<Instant, ConnectionId>> deadlines_;
  Instant listen_again_ = kNever;
  bool stopping_ = false;
};

}  // namespace tenure
