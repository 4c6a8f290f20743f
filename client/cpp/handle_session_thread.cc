// The thread of a HandleSession: everything that sends, receives, maps and unmaps.

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

// How long closing waits for a daemon that does not listen.
constexpr Duration kCloseWait = std::chrono::seconds(1);
// How many heartbeats without an answer are remembered.
constexpr size_t kMostUnanswered = 1000;
// How many serials one Unmapped carries: well within a packet.
constexpr size_t kSerialsPerPacket = 4000;
// How many heartbeats fall into the shortest time to live.
constexpr int kHeartbeatsPerTtl = 3;

}  // namespace

void HandleSession::Run() {
  while (Step()) {
  }
}

bool HandleSession::Step() {
  if (fetch_ == nullptr) StartNextFetch();
  if (closing_.load()) {
    if (!close_by_) close_by_ = Now() + kCloseWait;
    if (fetch_ == nullptr && !goodbye_said_) SayGoodbye();
  }
  SendHeartbeatIfDue(Now());
  TellOfSurvivors();
  if (absl::Status sent = Flush(); !sent.ok()) {
    Lose(sent);
    return false;
  }
  if (close_by_ && ((goodbye_said_ && outbound_.empty()) || Now() >= *close_by_)) return false;

  const auto events = static_cast<int16_t>(outbound_.empty() ? POLLIN : POLLIN | POLLOUT);
  pollfd entries[] = {{socket_.fd(), events, 0}, {wake_.get(), POLLIN, 0}};
  poll(entries, 2, WaitMillis(Now()));
  uint64_t wakes = 0;
  [[maybe_unused]] const ssize_t drained = read(wake_.get(), &wakes, sizeof(wakes));

  const absl::Status received = ReceiveAll();
  {
    const std::lock_guard lock(mutex_);
    leases_.LoseOverdue(Now(), renewed_at_.load(), kHeartbeatMissed);
  }
  if (!received.ok()) Lose(received);
  return received.ok();
}

int HandleSession::WaitMillis(Instant now) const {
  const Instant until = close_by_.value_or(NextHeartbeat());
  const auto millis = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
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
      if (fetch_ == nullptr || fetch_->lease_id != refused.lease_id()) {
        return ProtocolError("a refusal of memory that was not asked for");
      }
      FinishFetch(
          MakeError(absl::StatusCode::kFailedPrecondition, refused.reason(), refused.message()));
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
      UnmapAndTell(std::move(taken));
      return absl::OkStatus();
    }
    case v1::DaemonPacket::kLeaseLost: {
      const std::lock_guard lock(mutex_);
      leases_.Lose(packet.lease_lost().lease_id(), packet.lease_lost().reason());
      return absl::OkStatus();
    }
    case v1::DaemonPacket::kDrain: {
      std::unique_lock lock(mutex_);
      std::vector<RegionTable::Taken> taken = regions_.TakeAllIdle();
      lock.unlock();
      UnmapAndTell(std::move(taken));
      return absl::OkStatus();
    }
    case v1::DaemonPacket::kWelcome:
      return ProtocolError("a second Welcome");
    case v1::DaemonPacket::PACKET_NOT_SET:
      return absl::OkStatus();  // something that only newer clients know
  }
  return absl::OkStatus();
}

absl::Status HandleSession::OnShareBatch(const v1::ShareBatch& batch, ReceivedPacket& packet) {
  if (fetch_ == nullptr || batch.lease_id() != fetch_->lease_id ||
      batch.first_segment() != fetch_->next_segment) {
    return ProtocolError("memory that was not asked for");
  }
  fetch_->share_serial = batch.share_serial();
  fetch_->next_segment += static_cast<uint32_t>(batch.segment_sizes_size());
  absl::Status mapped = MapBatch(batch, packet);
  packet.fds.clear();

  v1::ClientPacket ack;
  ack.mutable_share_ack()->set_share_serial(batch.share_serial());
  ack.mutable_share_ack()->set_next_segment(fetch_->next_segment);
  Queue(ack);
  if (!mapped.ok() || fetch_->mapping.complete()) {
    FinishFetch(std::move(mapped));
  } else {
    SendFetch();
  }
  return absl::OkStatus();
}

absl::Status HandleSession::MapBatch(const v1::ShareBatch& batch, ReceivedPacket& packet) {
  if (packet.fds_lost) {
    return absl::ResourceExhaustedError(
        "this process has too many files open to receive the memory; raise its nofile limit");
  }
  const auto count = static_cast<size_t>(batch.segment_sizes_size());
  if (batch.region_id() != fetch_->region_id || count == 0 || packet.fds.size() != count) {
    return ProtocolError("a batch does not fit what was asked for");
  }
  if (fetch_->mapping.base() == nullptr) {
    absl::StatusOr<Mapping> reserved = Mapping::Reserve(fetch_->size_bytes);
    if (!reserved.ok()) return reserved.status();
    fetch_->mapping = *std::move(reserved);
  }
  for (size_t i = 0; i < count; ++i) {
    TENURE_CLIENT_RETURN_IF_ERROR(
        fetch_->mapping.Append(std::move(packet.fds[i]), batch.segment_sizes(static_cast<int>(i))));
  }
  if (fetch_->mapping.complete() != (fetch_->next_segment == batch.segment_count())) {
    return ProtocolError("the segments do not add up to the region's size");
  }
  return absl::OkStatus();
}

void HandleSession::FinishFetch(absl::Status status) {
  const std::shared_ptr<Fetch> fetch = std::exchange(fetch_, nullptr);
  if (!status.ok() && fetch->share_serial != 0) {
    std::vector<RegionTable::Taken> part;
    part.push_back({fetch->share_serial, std::move(fetch->mapping)});
    UnmapAndTell(std::move(part));
  }
  {
    const std::lock_guard lock(mutex_);
    if (status.ok()) {
      regions_.FinishFetch(fetch->region_id, fetch->share_serial, std::move(fetch->mapping));
    } else {
      regions_.FailFetch(fetch->region_id);
    }
    fetch->done = true;
    fetch->status = std::move(status);
    fetched_.notify_all();
  }
  StartNextFetch();
}

void HandleSession::StartNextFetch() {
  {
    const std::lock_guard lock(mutex_);
    if (fetch_queue_.empty()) return;
    fetch_ = std::move(fetch_queue_.front());
    fetch_queue_.pop_front();
  }
  SendFetch();
}

void HandleSession::SendFetch() {
  v1::ClientPacket packet;
  packet.mutable_fetch_share()->set_lease_id(fetch_->lease_id);
  packet.mutable_fetch_share()->set_first_segment(fetch_->next_segment);
  Queue(packet);
}

void HandleSession::UnmapAndTell(std::vector<RegionTable::Taken> taken) {
  v1::ClientPacket packet;
  for (RegionTable::Taken& each : taken) {
    each.mapping.Unmap();
    packet.mutable_unmapped()->add_share_serials(each.share_serial);
    if (static_cast<size_t>(packet.unmapped().share_serials_size()) == kSerialsPerPacket) {
      Queue(packet);
      packet.Clear();
    }
  }
  if (packet.has_unmapped()) Queue(packet);
}

void HandleSession::SayGoodbye() {
  goodbye_said_ = true;
  std::unique_lock lock(mutex_);
  std::vector<RegionTable::Taken> taken = regions_.TakeAllIdle();
  lock.unlock();
  UnmapAndTell(std::move(taken));
  v1::ClientPacket packet;
  packet.mutable_goodbye();
  Queue(packet);
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
  if (fetch_ != nullptr) fetch_queue_.push_front(std::exchange(fetch_, nullptr));
  for (const std::shared_ptr<Fetch>& fetch : fetch_queue_) {
    regions_.FailFetch(fetch->region_id);
    fetch->done = true;
    fetch->status = lost_status_;
  }
  fetch_queue_.clear();
  std::vector<RegionTable::Taken> of_no_use = regions_.TakeAllIdle();
  fetched_.notify_all();
  lock.unlock();
  UnmapSurvivors(std::move(of_no_use));
}

}  // namespace tenure::client
