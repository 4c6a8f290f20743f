#include "client/cpp/handle_session.h"

#include <algorithm>
#include <errno.h>
#include <poll.h>
#include <vector>

#include "client/cpp/duration.h"
#include "client/cpp/error.h"
#include "client/cpp/quiet_thread.h"

namespace tenure::client {
namespace {

constexpr uint32_t kProtocolVersion = 1;

absl::Status Unanswered(const std::string& path) {
  return MakeError(absl::StatusCode::kUnavailable, kDaemonUnreachable,
                   "the daemon does not answer at " + path, {{"path", path}});
}

// Waits until the socket can be read.
bool Readable(const HandleSocket& socket, Deadline deadline) {
  while (true) {
    pollfd entry{socket.fd(), POLLIN, 0};
    const int millis = static_cast<int>(
        std::min<int64_t>(deadline.left() / std::chrono::milliseconds(1) + 1, 60'000));
    const int ready = poll(&entry, 1, millis);
    if (ready > 0) return true;
    if (deadline.left() == Duration(0)) return false;
  }
}

absl::StatusOr<v1::Welcome> Greet(HandleSocket& socket, const std::string& path,
                                  const std::string& program, const std::string& instance,
                                  v1::Surviving surviving, Deadline deadline) {
  v1::ClientPacket hello;
  hello.mutable_hello()->set_protocol_version(kProtocolVersion);
  hello.mutable_hello()->set_program(program);
  hello.mutable_hello()->set_instance(instance);
  *hello.mutable_hello()->mutable_surviving() = std::move(surviving);
  // Whoever has no room may say so, and hang up, before the hello.
  const absl::StatusOr<bool> sent = socket.Send(hello.SerializeAsString());
  while (sent.value_or(true) && Readable(socket, deadline)) {
    absl::StatusOr<std::optional<ReceivedPacket>> packet = socket.Receive();
    if (!packet.ok()) return packet.status();
    if (!*packet) continue;
    v1::DaemonPacket reply;
    if (!reply.ParseFromString((*packet)->bytes)) return ProtocolError("a reply does not parse");
    if (!reply.has_welcome()) return ProtocolError("the first packet is no Welcome");
    if (reply.welcome().protocol_version() != kProtocolVersion) {
      return absl::FailedPreconditionError("the daemon speaks another protocol version than 1: " +
                                           std::to_string(reply.welcome().protocol_version()));
    }
    if (reply.welcome().session_id() == 0) {
      return absl::ResourceExhaustedError("the daemon has no room for another session");
    }
    return reply.welcome();
  }
  return Unanswered(path);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HandleSession>> HandleSession::Open(
    const std::string& path, const std::string& program, const std::string& instance,
    Deadline deadline, std::shared_ptr<Survivors> survivors) {
  absl::StatusOr<HandleSocket> socket = HandleSocket::Connect(path, deadline);
  if (!socket.ok()) return socket.status();
  const Instant before = Now();
  Survivors::Report report = survivors->MakeReport();
  const absl::StatusOr<v1::Welcome> welcome =
      Greet(*socket, path, program, instance, std::move(report.surviving), deadline);
  if (!welcome.ok()) return welcome.status();
  auto mailbox = std::make_shared<Mailbox>();
  if (!mailbox->valid()) return SystemError("making an eventfd", errno);
  std::unique_ptr<HandleSession> session(new HandleSession(*std::move(socket), std::move(mailbox),
                                                           *welcome, before, std::move(survivors),
                                                           report.version));
  session->Start();
  return session;
}

HandleSession::HandleSession(HandleSocket socket, std::shared_ptr<Mailbox> mailbox,
                             const v1::Welcome& welcome, Instant welcomed_at,
                             std::shared_ptr<Survivors> survivors, uint64_t survivors_told)
    : boot_id_(welcome.boot_id()),
      token_(welcome.token()),
      session_id_(welcome.session_id()),
      heartbeat_interval_(std::clamp<Duration>(FromProto(welcome.heartbeat_interval()),
                                               std::chrono::milliseconds(10),
                                               std::chrono::minutes(1))),
      mailbox_(std::move(mailbox)),
      survivors_(std::move(survivors)),
      socket_(std::move(socket)),
      survivors_told_(survivors_told),
      last_heartbeat_(welcomed_at),
      renewed_at_(welcomed_at) {}

void HandleSession::Start() {
  survivors_->Follow(this, [this] { mailbox_->Wake(); });
  thread_ = StartQuietThread([this] { Run(); });
}

HandleSession::~HandleSession() {
  survivors_->Unfollow(this);
  closing_.store(true);
  mailbox_->Wake();
  if (thread_.joinable()) thread_.join();
  // Each device is let go where all other calls about it are made.
  for (auto& [device, lane] : lanes_) {
    lane.jobs.Add(
        [cuda = std::exchange(lane.cuda, nullptr), pools = pools_.TakeMappings(device)]() mutable {
          pools.clear();
          cuda.reset();
        });
  }
  for (auto& [device, lane] : lanes_) {
    lane.jobs.Finish(Deadline(close_by_.value_or(Now()) - Now()));
  }
  TellSurvivors();
}

void HandleSession::TellSurvivors() {
  survivors_->Set(
      boot_id_, session_id_,
      {.weights = regions_.mapped_bytes_by_device(), .runtime = pools_.mapped_bytes_by_device()});
}

absl::Status HandleSession::Alive() const {
  if (!lost_.load(std::memory_order_acquire)) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  return lost_status_;
}

void HandleSession::BeginGrant() {
  const std::lock_guard lock(mutex_);
  leases_.BeginGrant();
}

void HandleSession::EndGrant() {
  const std::lock_guard lock(mutex_);
  leases_.EndGrant();
}

absl::StatusOr<const Mapping*> HandleSession::Hold(const std::shared_ptr<HeldLease>& lease,
                                                   Deadline deadline) {
  std::unique_lock lock(mutex_);
  if (lost_.load()) return lost_status_;
  const Duration interval = HeartbeatInterval();
  leases_.Add(lease);
  // A brief lease wants a heartbeat sooner than the thread is going to wake up.
  if (HeartbeatInterval() < interval) mailbox_->Wake();
  if (lease->region_bytes() == 0) return nullptr;

  RegionTable::Region& region =
      regions_.Use(lease->region_id(), lease->device(), lease->region_bytes());
  absl::Status failure;
  std::shared_ptr<Fetch> mine;
  if (region.size_bytes != lease->region_bytes()) {
    failure = ProtocolError("a region changed its size, id: " + std::to_string(lease->region_id()));
  }
  while (failure.ok() && region.state != RegionTable::State::kMapped) {
    if (lost_.load()) {
      failure = lost_status_;
    } else if (mine != nullptr && mine->done) {
      failure = mine->status;
    } else if (region.state == RegionTable::State::kStuck) {
      failure = region.stuck;
    } else if (deadline.left() == Duration(0)) {
      failure = absl::DeadlineExceededError(
          lease->memory_kind() == MemoryKind::kHost
              ? "the daemon did not send the memory in time"
              : "the daemon did not send the memory, or the CUDA driver did not map it, in time");
    } else {
      // Whoever waits for another's fetch starts one for its own lease if that one fails.
      if (region.state == RegionTable::State::kUnmapped) {
        mine = std::make_shared<Fetch>();
        mine->lease = lease;
        regions_.BeginFetch(lease->region_id());
        fetch_queue_.push_back(mine);
        mailbox_->Wake();
      }
      fetched_.wait_until(lock, deadline.at());
    }
  }
  if (failure.ok()) return region.mapping.get();
  leases_.Remove(lease->lease_id());
  regions_.Unuse(lease->region_id());
  return failure;
}

void HandleSession::Drop(const HeldLease& lease) {
  const std::lock_guard lock(mutex_);
  leases_.Remove(lease.lease_id());
  if (lease.region_bytes() != 0) regions_.Unuse(lease.region_id());
  // Once the session is over, what is idle is of no use.
  if (lost_.load()) mailbox_->Wake();
}

bool HandleSession::Valid(HeldLease& lease) {
  if (lease.lost()) return false;
  if (Now() < lease.certain_until(renewed_at_.load(std::memory_order_acquire))) return true;
  const std::lock_guard lock(mutex_);
  if (Now() < lease.certain_until(renewed_at_.load())) return !lease.lost();
  lease.MarkLost(kHeartbeatMissed);
  return false;
}

size_t HandleSession::mapped_region_count() const {
  const std::lock_guard lock(mutex_);
  return regions_.mapped_count();
}

}  // namespace tenure::client
