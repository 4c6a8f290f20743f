// The thread of a HandleSession: everything that sends and receives.

#include <algorithm>
#include <errno.h>
#include <poll.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "client/cpp/error.h"
#include "client/cpp/handle_session.h"

namespace tenure::client {
namespace {

// How long closing waits for a daemon that does not listen, and for a driver that is at work.
constexpr Duration kCloseWait = std::chrono::seconds(1);
constexpr Duration kDriverWait = std::chrono::seconds(5);
// How many heartbeats without an answer are remembered.
constexpr size_t kMostUnanswered = 1000;
// How many heartbeats fall into the shortest time to live.
constexpr int kHeartbeatsPerTtl = 3;

}  // namespace

void HandleSession::Run() {
  while (Step()) {
  }
  // Nothing more comes from the daemon; jobs for a fetch still come to their end.
  const std::map<std::string, std::shared_ptr<Fetch>> fetches = fetches_;
  for (const auto& [device, fetch] : fetches) {
    if (fetch->step != Fetch::Step::kWorking) {
      FinishFetch(fetch, absl::UnavailableError("the connection is over"));
    }
  }
  const std::map<std::string, std::shared_ptr<PoolFetch>> pool_fetches = pool_fetches_;
  for (const auto& [device, fetch] : pool_fetches) {
    if (fetch->step != PoolFetch::Step::kWorking) {
      FinishPoolFetch(fetch, absl::UnavailableError("the connection is over"));
    }
  }
  while (Linger()) {
  }
}

bool HandleSession::Step() {
  ReadMail();
  UnmapAgain();
  ReturnSegments();
  StartFetches();
  StartPoolFetches();
  if (closing_.load()) Close();
  TellUnmapped();
  SendHeartbeatIfDue(Now());
  TellOfSurvivors();
  if (absl::Status sent = Flush(); !sent.ok()) {
    Lose(sent);
    return false;
  }
  if (close_by_ && ((goodbye_said_ && outbound_.empty()) || Now() >= *close_by_)) return false;

  const auto events = static_cast<int16_t>(outbound_.empty() ? POLLIN : POLLIN | POLLOUT);
  pollfd entries[] = {{socket_.fd(), events, 0}, {mailbox_->fd(), POLLIN, 0}};
  poll(entries, 2, MillisUntil(close_by_.value_or(std::min(NextHeartbeat(), next_sweep_))));

  const absl::Status received = ReceiveAll();
  {
    const std::lock_guard lock(mutex_);
    leases_.LoseOverdue(Now(), renewed_at_.load(), kHeartbeatMissed);
  }
  SweepPools(Now());
  if (!received.ok()) Lose(received);
  return received.ok();
}

bool HandleSession::Linger() {
  ReadMail();
  UnmapAgain();
  UnmapIdle();
  ReturnSegments();
  if (closing_.load()) {
    if (!close_by_) close_by_ = Now() + kDriverWait;
    if (!AtWork() || Now() >= *close_by_) return false;
  }
  // Those of a pool that is over may still have to end.
  SweepPools(Now());
  pollfd entry{mailbox_->fd(), POLLIN, 0};
  poll(&entry, 1, MillisUntil(close_by_.value_or(next_sweep_)));
  return true;
}

void HandleSession::ReadMail() {
  for (const Mailbox::Letter& letter : mailbox_->TakeAll()) {
    --jobs_under_way_;
    letter();
  }
}

void HandleSession::Close() {
  UnmapIdle();
  UnmapPools();
  if (!close_by_) close_by_ = Now() + (AtWork() ? kDriverWait : kCloseWait);
  const bool wait = !fetches_.empty() || !pool_fetches_.empty() || AtWork();
  if (goodbye_said_ || (wait && Now() < *close_by_)) return;
  TellUnmapped();
  v1::ClientPacket packet;
  packet.mutable_goodbye();
  Queue(packet);
  goodbye_said_ = true;
}

int HandleSession::MillisUntil(std::optional<Instant> next) const {
  if (!unmap_again_.empty()) {
    const Instant again = unmap_again_.front().first;
    next = std::min(next.value_or(again), again);
  }
  if (!next) return -1;
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(*next - Now()).count();
  return static_cast<int>(std::clamp<int64_t>(millis, 0, 60'000));
}

Instant HandleSession::NextHeartbeat() const {
  const std::lock_guard lock(mutex_);
  return last_heartbeat_ + HeartbeatInterval();
}

Duration HandleSession::HeartbeatInterval() const {
  const std::optional<Duration> shortest = leases_.shortest_ttl();
  return shortest ? std::min(heartbeat_interval_, *shortest / kHeartbeatsPerTtl)
                  : heartbeat_interval_;
}

void HandleSession::SendHeartbeatIfDue(Instant now) {
  if (goodbye_said_ || now < NextHeartbeat()) return;
  last_heartbeat_ = now;
  // One that waits to be sent does for all.
  if (!outbound_.empty()) return;
  v1::ClientPacket packet;
  packet.mutable_heartbeat()->set_sequence(++heartbeat_sequence_);
  unanswered_.emplace_back(heartbeat_sequence_, now);
  if (unanswered_.size() > kMostUnanswered) unanswered_.pop_front();
  Queue(packet);
}

void HandleSession::TellOfSurvivors() {
  if (goodbye_said_ || survivors_->version() == survivors_told_) return;
  Survivors::Report report = survivors_->MakeReport();
  survivors_told_ = report.version;
  v1::ClientPacket packet;
  *packet.mutable_surviving() = std::move(report.surviving);
  Queue(packet);
}

void HandleSession::OnHeartbeatReply(uint64_t sequence) {
  while (!unanswered_.empty() && unanswered_.front().first <= sequence) {
    renewed_at_.store(unanswered_.front().second, std::memory_order_release);
    unanswered_.pop_front();
  }
}

absl::Status HandleSession::ReceiveAll() {
  while (true) {
    absl::StatusOr<std::optional<ReceivedPacket>> packet = socket_.Receive();
    if (!packet.ok()) return packet.status();
    if (!*packet) return absl::OkStatus();
    TENURE_CLIENT_RETURN_IF_ERROR(OnPacket(**std::move(packet)));
  }
}

absl::Status HandleSession::OnPacket(ReceivedPacket received) {
  v1::DaemonPacket packet;
  if (!packet.ParseFromString(received.bytes)) return ProtocolError("a packet does not parse");
  switch (packet.packet_case()) {
    case v1::DaemonPacket::kShareBatch:
      return OnShareBatch(packet.share_batch(), received);
    case v1::DaemonPacket::kShareRefused: {
      const v1::ShareRefused& refused = packet.share_refused();
      const std::shared_ptr<Fetch> fetch = Asked();
      if (fetch == nullptr || fetch->lease->lease_id() != refused.lease_id()) {
        return ProtocolError("a refusal of memory that was not asked for");
      }
      FinishFetch(fetch, MakeError(absl::StatusCode::kFailedPrecondition, refused.reason(),
                                   refused.message()));
      return absl::OkStatus();
    }
    case v1::DaemonPacket::kHeartbeatReply:
      OnHeartbeatReply(packet.heartbeat_reply().sequence());
      return absl::OkStatus();
    case v1::DaemonPacket::kRecall: {
      std::vector<RegionTable::Taken> taken;
      {
        const std::lock_guard lock(mutex_);
        if (auto one = regions_.TakeIdle(packet.recall().share_serial()))
          taken.push_back(*std::move(one));
      }
      Unmap(std::move(taken));
      return absl::OkStatus();
    }
    case v1::DaemonPacket::kLeaseLost: {
      const std::lock_guard lock(mutex_);
      leases_.Lose(packet.lease_lost().lease_id(), packet.lease_lost().reason());
      return absl::OkStatus();
    }
    case v1::DaemonPacket::kPoolBatch:
      return OnPoolBatch(packet.pool_batch(), received);
    case v1::DaemonPacket::kPoolRefused:
      return OnPoolRefused(packet.pool_refused());
    case v1::DaemonPacket::kPoolRecall:
      OnPoolRecall(packet.pool_recall());
      return absl::OkStatus();
    case v1::DaemonPacket::kMemoryWanted:
      OnMemoryWanted(packet.memory_wanted());
      return absl::OkStatus();
    case v1::DaemonPacket::kPoolLost:
      OnPoolLost(packet.pool_lost());
      return absl::OkStatus();
    case v1::DaemonPacket::kDrain:
      UnmapIdle();
      return absl::OkStatus();
    case v1::DaemonPacket::kWelcome:
      return ProtocolError("a second Welcome");
    case v1::DaemonPacket::PACKET_NOT_SET:
      return absl::OkStatus();  // something that only newer clients know
  }
  return absl::OkStatus();
}

void HandleSession::Queue(const v1::ClientPacket& packet) {
  outbound_.push_back(packet.SerializeAsString());
}

absl::Status HandleSession::Flush() {
  while (!outbound_.empty()) {
    const absl::StatusOr<bool> sent = socket_.Send(outbound_.front());
    if (!sent.ok()) return sent.status();
    if (!*sent) return absl::OkStatus();
    outbound_.pop_front();
  }
  return absl::OkStatus();
}

void HandleSession::Lose(const absl::Status& why) {
  std::unique_lock lock(mutex_);
  lost_status_ = MakeError(absl::StatusCode::kUnavailable, kDaemonGone,
                           "the session with the daemon is over: " + std::string(why.message()));
  lost_.store(true, std::memory_order_release);
  leases_.LoseAll(kDaemonGone);
  for (const std::shared_ptr<Fetch>& fetch : fetch_queue_) {
    regions_.FailFetch(fetch->lease->region_id());
    fetch->done = true;
    fetch->status = lost_status_;
  }
  fetch_queue_.clear();
  for (const std::shared_ptr<PoolFetch>& fetch : pool_queue_) {
    fetch->done = true;
    fetch->status = lost_status_;
  }
  pool_queue_.clear();
  TellSurvivors();
  fetched_.notify_all();
  const SessionPools::Listeners pools = pools_.LoseAll();
  lock.unlock();
  LosePools(pools, std::string(kDaemonGone));
}

}  // namespace tenure::client
