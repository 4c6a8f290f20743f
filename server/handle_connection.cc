#include "server/handle_connection.h"

#include <algorithm>
#include <map>
#include <spdlog/spdlog.h>
#include <utility>

#include "core/base/check.h"
#include "server/handle_packet.h"
#include "server/printable.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kMaxNameBytes = 64;
// Packets taken from one client before it is the next one's turn.
constexpr int kPacketsPerTurn = 32;
// More than any machine has, so that sums of what clients claim stay sums.
constexpr Bytes kMostSurviving = Bytes(uint64_t{1} << 56);
// Packets of a client that has ended among which a goodbye is looked for.
constexpr int kLastWords = 1024;

v1::DaemonPacket WelcomeTo(const HandleServerOptions& options) {
  v1::DaemonPacket packet;
  packet.mutable_welcome()->set_protocol_version(kProtocolVersion);
  packet.mutable_welcome()->set_boot_id(options.boot_id);
  return packet;
}

}  // namespace

std::string WelcomeWithoutSession(const HandleServerOptions& options) {
  return WelcomeTo(options).SerializeAsString();
}

HandleConnection::HandleConnection(const HandleSurroundings& surroundings, UniqueFd socket,
                                   HandlePeer peer)
    : surroundings_(surroundings),
      socket_(std::move(socket)),
      peer_(std::move(peer)),
      give_up_(After(surroundings_.clock.Now(), surroundings_.options.hello_timeout)) {}

HandleConnection::~HandleConnection() { ForgetFetch(); }

void HandleConnection::OnReadable() {
  for (int i = 0; i < kPacketsPerTurn && !hung_up(); ++i) {
    const Received received = ReceivePacket(socket_.get(), surroundings_.buffer);
    switch (received.kind) {
      case Received::Kind::kPacket:
        Take(std::string_view(surroundings_.buffer.data(), received.size));
        break;
      case Received::Kind::kBroken:
        Break("a packet that is empty, too long, or carries fds");
        break;
      case Received::Kind::kHangUp:
        HangUp();
        return;
      case Received::Kind::kNothing:
        return;
    }
  }
}

void HandleConnection::OnWritable() {
  outbound_.OnWritable();
  Flush();
}

void HandleConnection::OnProcessEnded() {
  v1::ClientPacket packet;
  for (int i = 0; i < kLastWords && !hung_up() && !said_goodbye_; ++i) {
    const Received received = ReceivePacket(socket_.get(), surroundings_.buffer);
    if (received.kind == Received::Kind::kPacket &&
        packet.ParseFromArray(surroundings_.buffer.data(), static_cast<int>(received.size))) {
      said_goodbye_ = packet.has_goodbye() && phase_ == Phase::kLive;
    }
    if (received.kind == Received::Kind::kNothing || received.kind == Received::Kind::kHangUp)
      break;
  }
  Finish(!said_goodbye_);
}

void HandleConnection::OnDeadline() {
  const Instant now = surroundings_.clock.Now();
  if (now >= give_up_) {
    if (greeting()) return Refuse("no hello in time");
    return Finish(!said_goodbye_ && !peer_.pidfd.valid());
  }
  if (now >= outbound_.retry_at()) Flush();
}

Instant HandleConnection::deadline() const { return std::min(give_up_, outbound_.retry_at()); }

void HandleConnection::CloseSocket() {
  TENURE_CHECK(hung_up());
  socket_.Reset();
}

void HandleConnection::Take(std::string_view bytes) {
  if (phase_ != Phase::kGreeting && phase_ != Phase::kLive) return;
  v1::ClientPacket packet;
  if (!packet.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Break("a packet that cannot be parsed");
  }
  if (phase_ == Phase::kGreeting) return Greet(packet);
  Serve(packet);
}

void HandleConnection::Greet(const v1::ClientPacket& packet) {
  const v1::Hello& hello = packet.hello();
  if (!packet.has_hello() || hello.program().size() > kMaxNameBytes ||
      hello.instance().size() > kMaxNameBytes) {
    return Break("a first packet that is no good hello");
  }
  StatusOr<SessionRegistry::Opened> opened = absl::UnknownError("not asked");
  if (hello.protocol_version() == kProtocolVersion) {
    opened =
        surroundings_.registry.Open(surroundings_.store, {.program = Printable(hello.program()),
                                                          .instance = Printable(hello.instance()),
                                                          .uid = peer_.uid,
                                                          .gid = peer_.gid,
                                                          .pid = peer_.pid,
                                                          .groups = peer_.groups});
  }
  if (!opened.ok()) {
    (void)SendPacket(socket_.get(), WelcomeWithoutSession(surroundings_.options), {});
    return Refuse(hello.protocol_version() == kProtocolVersion ? "too many sessions"
                                                               : "another protocol version");
  }
  session_ = opened->id;
  TakeSurviving(hello.surviving());
  phase_ = Phase::kLive;
  give_up_ = kNever;
  v1::DaemonPacket reply = WelcomeTo(surroundings_.options);
  v1::Welcome& welcome = *reply.mutable_welcome();
  welcome.set_session_id(session_.value());
  welcome.set_token(opened->token);
  *welcome.mutable_heartbeat_interval() = ToProto(surroundings_.options.heartbeat_interval);
  Tell(reply);
}

void HandleConnection::Serve(const v1::ClientPacket& packet) {
  switch (packet.packet_case()) {
    case v1::ClientPacket::kFetchShare:
      return TakeFetch(packet.fetch_share());
    case v1::ClientPacket::kFetchPool:
      return TakeFetch(packet.fetch_pool());
    case v1::ClientPacket::kShareAck:
      return TakeAck(packet.share_ack());
    case v1::ClientPacket::kHeartbeat: {
      surroundings_.store.RenewSession(session_);
      surroundings_.registry.Heard(session_);
      v1::DaemonPacket reply;
      reply.mutable_heartbeat_reply()->set_sequence(packet.heartbeat().sequence());
      return Tell(reply);
    }
    case v1::ClientPacket::kUnmapped:
      return TakeUnmapped(packet.unmapped());
    case v1::ClientPacket::kGoodbye:
      return Part();
    case v1::ClientPacket::kSurviving:
      return TakeSurviving(packet.surviving());
    case v1::ClientPacket::kHello:
      return Break("a second hello");
    case v1::ClientPacket::PACKET_NOT_SET:
      return Break("a packet that says nothing");
  }
}

void HandleConnection::TakeUnmapped(const v1::Unmapped& unmapped) {
  for (const uint64_t serial : unmapped.share_serials()) {
    const ShareSerial share(serial);
    // Its word cannot be about fds that may still be on their way.
    if (in_flight_.has_value() && std::ranges::count(in_flight_->shares, share) > 0) {
      return Break("unmapped, before the batch was acknowledged");
    }
    if (!surroundings_.store.Unmapped(session_, share)) {
      surroundings_.counters.unknown_shares.fetch_add(1, std::memory_order_relaxed);
    }
  }
}

void HandleConnection::TakeSurviving(const v1::Surviving& surviving) {
  std::map<std::string, Store::Surviving> sizes;
  const auto add = [](Bytes& sum, uint64_t bytes) {
    sum += std::min(Bytes(bytes), kMostSurviving - sum);
  };
  for (const v1::SurvivingMemory& memory : surviving.memories()) {
    if (memory.boot_id() == surroundings_.options.boot_id) continue;
    add(sizes[memory.device()].weights, memory.bytes());
    add(sizes[memory.device()].runtime, memory.runtime_bytes());
  }
  survived_ = !sizes.empty();
  surroundings_.store.SetSurviving(session_, sizes);
}

bool HandleConnection::MayRead() const {
  return survived_ || surroundings_.store.UseBy(session_).shares > 0;
}

void HandleConnection::Refuse(std::string_view why) {
  TENURE_CHECK(greeting());
  surroundings_.counters.connections_refused.fetch_add(1, std::memory_order_relaxed);
  spdlog::debug("refused a connection of pid {}: {}", peer_.pid, why);
  Finish(false);
}

void HandleConnection::Break(std::string_view rule) {
  if (greeting()) return Refuse(rule);
  if (phase_ != Phase::kLive) return;
  surroundings_.counters.protocol_breaks.fetch_add(1, std::memory_order_relaxed);
  spdlog::warn("session {} of pid {} broke the protocol and is not listened to any more: {}",
               session_.value(), peer_.pid, rule);
  phase_ = Phase::kDeaf;
  surroundings_.registry.Leave(session_, SessionState::kDeaf);
  ForgetOutbound();
}

void HandleConnection::Part() {
  said_goodbye_ = true;
  phase_ = Phase::kParted;
  surroundings_.registry.Leave(session_, SessionState::kGone);
  surroundings_.store.CloseSession(session_);
  ForgetOutbound();
  if (!MayRead()) Finish(false);
}

void HandleConnection::HangUp() {
  if (phase_ == Phase::kGreeting) return Finish(false);
  phase_ = Phase::kHungUp;
  surroundings_.registry.Leave(session_, SessionState::kGone);
  surroundings_.store.CloseSession(session_);
  ForgetOutbound();
  if (!peer_.pidfd.valid() || !MayRead()) {
    give_up_ = After(surroundings_.clock.Now(), surroundings_.options.death_grace);
  }
}

void HandleConnection::Finish(bool lost) {
  if (phase_ == Phase::kFinished) return;
  phase_ = Phase::kFinished;
  give_up_ = kNever;
  ForgetOutbound();
  if (!session_.valid()) return;
  surroundings_.store.EndSession(session_);
  surroundings_.registry.Remove(session_, lost);
}

void HandleConnection::Drain(Duration deadline) {
  v1::DaemonPacket packet;
  *packet.mutable_drain()->mutable_deadline() = ToProto(deadline);
  Tell(packet);
}

void HandleConnection::Tell(const v1::DaemonPacket& packet) {
  if (phase_ != Phase::kLive) return;
  if (!outbound_.Add(packet.SerializeAsString())) {
    surroundings_.counters.packets_dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Flush();
}

void HandleConnection::Flush() {
  const bool drained = outbound_.Flush(socket_.get(), surroundings_.clock.Now());
  if (drained && fetch_.has_value() && !export_.valid()) BeginExport();
}

void HandleConnection::ForgetOutbound() {
  outbound_.Clear();
  ForgetFetch();
}

}  // namespace tenure
