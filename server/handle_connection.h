#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/store/share_export.h"
#include "core/store/store.h"
#include "server/handle_options.h"
#include "server/handle_outbound.h"
#include "server/handle_peer.h"
#include "server/session_registry.h"
#include "tenure/v1/handle.pb.h"

namespace tenure {

// What all connections of one server share; outlives them.
struct HandleSurroundings {
  Store& store;
  SessionRegistry& registry;
  const Clock& clock;
  const HandleServerOptions& options;
  HandleCounters& counters;
  std::span<char> buffer;  // kMaxPacketBytes, for the packet at hand
};

// What a client hears for which there is no Session to be had.
std::string WelcomeWithoutSession(const HandleServerOptions& options);

// One client's connection and process, from accept to the proof of death: what the client may say
// when, and what it is owed. It knows no event loop: whoever watches its fds calls an On function
// for what happened, and then looks at what the connection wants. Thread-compatible.
//
//   greeting --Hello--> live --break--> deaf --hang-up--> hung up --death--> finished
//                         |--Goodbye--> parted --hang-up--^
//
// A death finishes every phase, and so does a hang-up or a break while greeting; a goodbye that
// leaves nothing mapped finishes at once. Fds of a Region are made when they can be sent and closed
// right after, so that a client that does not read costs none. The Store makes them, which may take
// for ever: a fetch waits for that, and nothing else does.
class HandleConnection {
 public:
  HandleConnection(const HandleSurroundings& surroundings, UniqueFd socket, HandlePeer peer);
  HandleConnection(const HandleConnection&) = delete;
  HandleConnection& operator=(const HandleConnection&) = delete;
  ~HandleConnection();

  // The socket can be read or has hung up. Takes a bounded number of packets.
  void OnReadable();
  void OnWritable();
  // The pidfd is readable. What the client had said before still counts: a goodbye is a goodbye.
  void OnProcessEnded();
  // deadline() has passed.
  void OnDeadline();

  // Hangs up on a client that has not said hello; `why` is for the log. REQUIRES: greeting().
  void Refuse(std::string_view why);

  // Dropped unless the Session is live, or if the client does not read.
  void Tell(const v1::DaemonPacket& packet);
  void Drain(Duration deadline);
  // What came of an export that this connection began; dropped if it does not wait for it any more.
  void Exported(ExportId id, const StatusOr<ExportedBatch>& batch);

  int socket() const { return socket_.get(); }
  int pidfd() const { return peer_.pidfd.get(); }
  // Closes our end. REQUIRES: hung_up(), and the socket is not watched any more.
  void CloseSocket();

  // The Session; not valid before the hello.
  SessionId session() const { return session_; }
  bool greeting() const { return phase_ == Phase::kGreeting; }
  // Nothing will come from the socket any more.
  bool hung_up() const { return phase_ == Phase::kHungUp || phase_ == Phase::kFinished; }
  // Nothing is left to do or to wait for.
  bool finished() const { return phase_ == Phase::kFinished; }
  bool wants_to_write() const { return outbound_.wants_to_write(); }
  // When to call OnDeadline; kNever if there is nothing to wait for.
  Instant deadline() const;

 private:
  using Fetch = std::variant<v1::FetchShare, v1::FetchPool>;
  enum class Phase { kGreeting, kLive, kDeaf, kParted, kHungUp, kFinished };

  // What the client said, by phase and packet.
  void Take(std::string_view bytes);
  void Greet(const v1::ClientPacket& packet);
  void Serve(const v1::ClientPacket& packet);
  void TakeFetch(Fetch fetch);
  void TakeAck(const v1::ShareAck& ack);
  void TakeUnmapped(const v1::Unmapped& unmapped);
  void TakeSurviving(const v1::Surviving& surviving);

  // True while the process may read memory that it was given.
  bool MayRead() const;

  // Ways on and out.
  void Break(std::string_view rule);
  void Part();
  void HangUp();
  void Finish(bool lost);

  // What the client gets.
  void Flush();
  void ForgetOutbound();

  // handle_connection_fetch.cc: from a fetch to its answer. REQUIRE: fetch_, but ForgetFetch.
  void BeginExport();
  StatusOr<ExportId> BeginExport(const v1::FetchShare& fetch);
  StatusOr<ExportId> BeginExport(const v1::FetchPool& fetch);
  // False if it cannot go now: a Flush that drains the queue begins anew.
  bool SendBatch(const ExportedBatch& exported);
  void RefuseFetch(const Status& why);
  void ForgetFetch();

  const HandleSurroundings& surroundings_;
  UniqueFd socket_;
  HandlePeer peer_;

  Phase phase_ = Phase::kGreeting;
  SessionId session_;
  bool said_goodbye_ = false;
  bool survived_ = false;     // maps memory of an earlier daemon
  Instant give_up_ = kNever;  // hello was not said, or the process counts as dead

  HandleOutbound outbound_;
  std::optional<Fetch> fetch_;  // asked for and not answered yet
  ExportId export_;             // for fetch_, not valid while none is under way
  struct InFlight {
    std::vector<ShareSerial> shares;  // the last one is acknowledged
    uint32_t next_segment = 0;
  };
  std::optional<InFlight> in_flight_;  // sent and not acknowledged
};

}  // namespace tenure
