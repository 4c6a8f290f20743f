#include "server/handle_server.h"

#include <algorithm>
#include <array>
#include <errno.h>
#include <optional>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <utility>

#include "core/base/check.h"
#include "server/handle_packet.h"
#include "server/handle_peer.h"
#include "server/translate.h"

namespace tenure {
namespace {

// Serials in one packet, each of which takes at most 10 bytes of 64 KiB.
constexpr size_t kMostRecalled = 4096;

// What an epoll event is about: the listener, the inbox, or a connection's socket or pidfd.
constexpr uint64_t kListenerKey = 0;
constexpr uint64_t kInboxKey = 1;
constexpr uint64_t kFirstId = 1;
constexpr uint64_t SocketKey(uint64_t id) { return 2 * id; }
constexpr uint64_t PidfdKey(uint64_t id) { return 2 * id + 1; }

constexpr int kAcceptsPerTurn = 16;
constexpr size_t kEventsPerTurn = 64;
constexpr Duration kListenAgainAfter = std::chrono::milliseconds(50);
constexpr uint32_t kSocketEvents = EPOLLIN | EPOLLRDHUP;

}  // namespace

HandleServer::HandleServer(SessionRegistry& registry, const Clock& clock)
    : registry_(registry), clock_(clock), buffer_(kMaxPacketBytes) {}

HandleServer::~HandleServer() { Stop(); }

Status HandleServer::Start(Store& store, HandleServerOptions options) {
  TENURE_CHECK(!thread_.joinable());
  options_ = std::move(options);
  no_session_ = WelcomeWithoutSession(options_);
  const auto refused = [this](std::string_view what) {
    inbox_.Close();
    listener_.reset();
    return Error(Reason::kBackend, "cannot serve the handle socket: " + std::string(what));
  };
  TENURE_ASSIGN_OR_RETURN(
      SocketListener listener,
      SocketListener::Listen(SocketKind::kPackets, options_.path, options_.mode, options_.group));
  listener_.emplace(std::move(listener));
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return refused("epoll_create1");
  if (!inbox_.Open()) return refused("eventfd");
  if (!Watch(EPOLL_CTL_ADD, listener_->fd(), kListenerKey, EPOLLIN) ||
      !Watch(EPOLL_CTL_ADD, inbox_.event_fd(), kInboxKey, EPOLLIN)) {
    return refused("epoll_ctl");
  }
  surroundings_.emplace(HandleSurroundings{.store = store,
                                           .registry = registry_,
                                           .clock = clock_,
                                           .options = options_,
                                           .counters = counters_,
                                           .buffer = buffer_});
  stopping_ = false;
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void HandleServer::Drain(Duration deadline) { inbox_.Post(PostedDrain{.deadline = deadline}); }

void HandleServer::AskToRelease(SessionId session, const std::string& device, Duration deadline) {
  PostedPacket post{.session = session, .packet = {}};
  *post.packet.mutable_drain()->mutable_deadline() = ToProto(deadline);
  post.packet.mutable_drain()->set_device(device);
  inbox_.Post(std::move(post));
}

void HandleServer::SetHeartbeatInterval(Duration interval) {
  inbox_.Post(PostedHeartbeatInterval{.interval = interval});
}

void HandleServer::Stop() {
  if (!thread_.joinable()) return;
  inbox_.Post(PostedStop{});
  thread_.join();
  inbox_.Close();
  epoll_.Reset();
}

void HandleServer::OnRecall(SessionId session, ShareSerial share, RegionId region,
                            Duration answer_within) {
  PostedPacket post{.session = session, .packet = {}};
  v1::Recall& recall = *post.packet.mutable_recall();
  recall.set_share_serial(share.value());
  recall.set_region_id(region.value());
  *recall.mutable_answer_within() = ToProto(answer_within);
  inbox_.Post(std::move(post));
}

void HandleServer::OnLeaseLost(SessionId session, LeaseId lease, RegionId region, Reason reason) {
  PostedPacket post{.session = session, .packet = {}};
  v1::LeaseLost& lost = *post.packet.mutable_lease_lost();
  lost.set_lease_id(lease.value());
  lost.set_region_id(region.value());
  lost.set_reason(std::string(ReasonName(reason)));
  inbox_.Post(std::move(post));
}

// As many as fit into a packet.
void HandleServer::OnPoolRecall(SessionId session, PoolId pool, std::span<const ShareSerial> shares,
                                Duration answer_within) {
  while (!shares.empty()) {
    const size_t count = std::min(shares.size(), kMostRecalled);
    PostedPacket post{.session = session, .packet = {}};
    v1::PoolRecall& recall = *post.packet.mutable_pool_recall();
    recall.set_pool_id(pool.value());
    for (const ShareSerial share : shares.first(count)) recall.add_share_serials(share.value());
    *recall.mutable_answer_within() = ToProto(answer_within);
    inbox_.Post(std::move(post));
    shares = shares.subspan(count);
  }
}

void HandleServer::OnMemoryWanted(SessionId session, PoolId pool, Bytes bytes) {
  PostedPacket post{.session = session, .packet = {}};
  post.packet.mutable_memory_wanted()->set_pool_id(pool.value());
  post.packet.mutable_memory_wanted()->set_bytes(bytes.count());
  inbox_.Post(std::move(post));
}

void HandleServer::OnPoolLost(SessionId session, PoolId pool, Reason reason) {
  PostedPacket post{.session = session, .packet = {}};
  post.packet.mutable_pool_lost()->set_pool_id(pool.value());
  post.packet.mutable_pool_lost()->set_reason(std::string(ReasonName(reason)));
  inbox_.Post(std::move(post));
}

void HandleServer::OnExported(SessionId session, ExportId id, StatusOr<ExportedBatch> batch) {
  inbox_.Post(PostedExport{.session = session, .id = id, .batch = std::move(batch)});
}

void HandleServer::Run() {
  pthread_setname_np(pthread_self(), "tenure-handle");
  std::array<epoll_event, kEventsPerTurn> events;
  while (!stopping_) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 MillisecondsToWait());
    TENURE_CHECK(count >= 0 || errno == EINTR);
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      Dispatch(event.data.u64, event.events);
    }
    RunDeadlines();
  }
  connections_.clear();
  sessions_.clear();
  greeting_.clear();
  deadlines_.clear();
  listen_again_ = kNever;
  listener_.reset();
}

void HandleServer::Dispatch(uint64_t key, uint32_t events) {
  if (key == kListenerKey) return Accept();
  if (key == kInboxKey) return TakePosts();
  const ConnectionId id = key / 2;
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  HandleConnection& connection = *found->second.connection;
  if (key == PidfdKey(id)) {
    connection.OnProcessEnded();
  } else {
    if ((events & EPOLLOUT) != 0) connection.OnWritable();
    if ((events & ~uint32_t{EPOLLOUT}) != 0) connection.OnReadable();
  }
  Settle(id);
}

void HandleServer::Accept() {
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    SocketListener::Acceptance acceptance = listener_->Accept(no_session_);
    switch (acceptance.outcome) {
      case SocketListener::Outcome::kAccepted:
        Add(std::move(acceptance.socket));
        break;
      case SocketListener::Outcome::kRefused:
        counters_.connections_refused.fetch_add(1, std::memory_order_relaxed);
        spdlog::warn("refused a connection: the daemon is out of file descriptors");
        break;
      case SocketListener::Outcome::kStuck:
        return StopListeningUntil(After(clock_.Now(), kListenAgainAfter));
      case SocketListener::Outcome::kNobody:
        return;
    }
  }
}

void HandleServer::StopListeningUntil(Instant again) {
  if (Watch(EPOLL_CTL_DEL, listener_->fd(), kListenerKey, 0)) listen_again_ = again;
}

void HandleServer::Add(UniqueFd socket) {
  std::optional<HandlePeer> peer = IdentifyPeer(socket.get());
  const ConnectionId id = last_id_ + kFirstId;
  if (!peer.has_value() || !Watch(EPOLL_CTL_ADD, socket.get(), SocketKey(id), kSocketEvents)) {
    (void)SendPacket(socket.get(), no_session_, {});
    counters_.connections_refused.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (peer->pidfd.valid() && !Watch(EPOLL_CTL_ADD, peer->pidfd.get(), PidfdKey(id), EPOLLIN)) {
    (void)SendPacket(socket.get(), no_session_, {});
    counters_.connections_refused.fetch_add(1, std::memory_order_relaxed);
    Watch(EPOLL_CTL_DEL, socket.get(), SocketKey(id), 0);
    return;
  }
  last_id_ = id;
  connections_.emplace(id, Served{.connection = std::make_unique<HandleConnection>(
                                      *surroundings_, std::move(socket), *std::move(peer))});
  greeting_.insert(id);
  Settle(id);
  if (greeting_.size() > options_.max_greeting) {
    const ConnectionId oldest = *greeting_.begin();
    connections_.at(oldest).connection->Refuse("too many that have not said hello");
    Settle(oldest);
  }
}

void HandleServer::Settle(ConnectionId id) {
  const auto found = connections_.find(id);
  Served& served = found->second;
  HandleConnection& connection = *served.connection;
  if (!connection.greeting() && greeting_.erase(id) > 0 && connection.session().valid()) {
    sessions_.emplace(connection.session(), id);
  }
  if (connection.hung_up() && served.socket_watched) {
    Watch(EPOLL_CTL_DEL, connection.socket(), SocketKey(id), 0);
    served.socket_watched = false;
    connection.CloseSocket();
  }
  if (served.socket_watched && connection.wants_to_write() != served.watched_for_writing) {
    served.watched_for_writing = connection.wants_to_write();
    const uint32_t writing = served.watched_for_writing ? uint32_t{EPOLLOUT} : 0;
    Watch(EPOLL_CTL_MOD, connection.socket(), SocketKey(id), kSocketEvents | writing);
  }
  const Instant deadline = connection.finished() ? kNever : connection.deadline();
  if (deadline != served.deadline) {
    deadlines_.erase({served.deadline, id});
    if (deadline != kNever) deadlines_.emplace(deadline, id);
    served.deadline = deadline;
  }
  if (!connection.finished()) return;
  if (connection.pidfd() >= 0) Watch(EPOLL_CTL_DEL, connection.pidfd(), PidfdKey(id), 0);
  sessions_.erase(connection.session());
  connections_.erase(found);
}

void HandleServer::RunDeadlines() {
  const Instant now = clock_.Now();
  if (now >= listen_again_) {
    listen_again_ = Watch(EPOLL_CTL_ADD, listener_->fd(), kListenerKey, EPOLLIN)
                        ? kNever
                        : After(now, kListenAgainAfter);
  }
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const ConnectionId id = deadlines_.begin()->second;
    connections_.at(id).connection->OnDeadline();
    Settle(id);
  }
}

int HandleServer::MillisecondsToWait() const {
  const Instant next =
      std::min(deadlines_.empty() ? kNever : deadlines_.begin()->first, listen_again_);
  if (next == kNever) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - clock_.Now()).count();
  return static_cast<int>(std::clamp<int64_t>(wait, 0, 60'000));
}

void HandleServer::TakePosts() {
  for (const HandlePost& posted : inbox_.Take()) {
    std::visit([this](const auto& post) { Deliver(post); }, posted);
  }
}

void HandleServer::Tell(SessionId session, const std::function<void(HandleConnection&)>& what) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  const ConnectionId id = found->second;
  what(*connections_.at(id).connection);
  Settle(id);
}

void HandleServer::Deliver(const PostedPacket& post) {
  Tell(post.session, [&](HandleConnection& connection) { connection.Tell(post.packet); });
}

void HandleServer::Deliver(const PostedExport& post) {
  Tell(post.session,
       [&](HandleConnection& connection) { connection.Exported(post.id, post.batch); });
}

void HandleServer::Deliver(const PostedDrain& post) {
  std::vector<SessionId> everybody;
  everybody.reserve(sessions_.size());
  for (const auto& [session, id] : sessions_) everybody.push_back(session);
  for (const SessionId session : everybody) {
    Tell(session, [&](HandleConnection& connection) { connection.Drain(post.deadline); });
  }
}

void HandleServer::Deliver(const PostedHeartbeatInterval& post) {
  options_.heartbeat_interval = post.interval;
}

void HandleServer::Deliver(const PostedStop&) {
  Deliver(PostedDrain{});
  stopping_ = true;
}

bool HandleServer::Watch(int operation, int fd, uint64_t key, uint32_t events) {
  epoll_event event{.events = events, .data = {.u64 = key}};
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

}  // namespace tenure
