#include "tests/client/handle_peer.h"

#include <chrono>
#include <errno.h>
#include <poll.h>
#include <stdexcept>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>

namespace tenure::client {
namespace {

constexpr int kPollMillis = 2;
constexpr auto kHeartbeatInterval = std::chrono::milliseconds(20);

int Listen(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd, 1) != 0) {
    throw std::runtime_error("cannot listen at " + path);
  }
  return fd;
}

}  // namespace

HandlePeer::HandlePeer(const std::string& path)
    : listener_(Listen(path)), thread_([this] { Run(); }) {}

HandlePeer::~HandlePeer() {
  HangUp();
  thread_.join();
}

void HandlePeer::Offer(uint64_t lease_id, uint64_t region_id, std::vector<Segment> segments) {
  const std::lock_guard lock(mutex_);
  offered_[lease_id] = {region_id, 0, std::move(segments)};
}

void HandlePeer::OfferPool(uint64_t bytes, std::function<UniqueFd()> fd) {
  const std::lock_guard lock(mutex_);
  pool_segment_ = {std::move(fd), bytes};
}

void HandlePeer::EditPoolBatches(Edit edit) {
  const std::lock_guard lock(mutex_);
  edit_ = std::move(edit);
}

void HandlePeer::Say(const v1::DaemonPacket& packet) {
  const std::lock_guard lock(mutex_);
  Send(packet);
}

void HandlePeer::IgnoreHeartbeats() {
  const std::lock_guard lock(mutex_);
  ignore_heartbeats_ = true;
}

void HandlePeer::Recall(uint64_t share_serial) {
  v1::DaemonPacket packet;
  packet.mutable_recall()->set_share_serial(share_serial);
  const std::lock_guard lock(mutex_);
  Send(packet);
}

void HandlePeer::RecallLast() {
  uint64_t serial = 0;
  {
    const std::lock_guard lock(mutex_);
    serial = last_serial_;
  }
  Recall(serial);
}

void HandlePeer::HangUp() {
  const std::lock_guard lock(mutex_);
  over_ = true;
  socket_.reset();
}

std::vector<std::string> HandlePeer::Heard() const {
  const std::lock_guard lock(mutex_);
  return heard_;
}

size_t HandlePeer::heartbeats() const {
  const std::lock_guard lock(mutex_);
  return heartbeats_;
}

void HandlePeer::Run() {
  while (true) {
    poll(nullptr, 0, kPollMillis);
    const std::lock_guard lock(mutex_);
    if (over_) return;
    if (!socket_) {
      UniqueFd accepted(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (accepted.valid()) socket_.emplace(std::move(accepted));
      continue;
    }
    while (socket_) {
      const auto received = socket_->Receive();
      if (!received.ok()) socket_.reset();
      if (!received.ok() || !*received) break;
      v1::ClientPacket packet;
      if (packet.ParseFromString((*received)->bytes)) Answer(packet);
    }
  }
}

void HandlePeer::Answer(const v1::ClientPacket& packet) {
  v1::DaemonPacket reply;
  if (packet.has_hello()) {
    v1::Welcome& welcome = *reply.mutable_welcome();
    welcome.set_protocol_version(1);
    welcome.set_boot_id("boot");
    welcome.set_session_id(1);
    welcome.mutable_heartbeat_interval()->set_nanos(
        std::chrono::nanoseconds(kHeartbeatInterval).count());
    Send(reply);
  } else if (packet.has_heartbeat()) {
    ++heartbeats_;
    reply.mutable_heartbeat_reply()->set_sequence(packet.heartbeat().sequence());
    if (!ignore_heartbeats_) Send(reply);
  } else if (packet.has_fetch_share()) {
    const v1::FetchShare& fetch = packet.fetch_share();
    heard_.push_back("fetch " + std::to_string(fetch.lease_id()) + " " +
                     std::to_string(fetch.first_segment()));
    SendBatch(fetch);
  } else if (packet.has_fetch_pool()) {
    heard_.push_back("fetch-pool " + std::to_string(packet.fetch_pool().pool_id()) + " " +
                     std::to_string(packet.fetch_pool().offsets_size()));
    SendPoolBatch(packet.fetch_pool());
  } else if (packet.has_share_ack()) {
    heard_.push_back("ack " + std::to_string(packet.share_ack().share_serial()) + " " +
                     std::to_string(packet.share_ack().next_segment()));
  } else if (packet.has_unmapped()) {
    for (const uint64_t serial : packet.unmapped().share_serials()) {
      heard_.push_back("unmapped " + std::to_string(serial));
    }
  } else if (packet.has_goodbye()) {
    heard_.emplace_back("goodbye");
  }
}

void HandlePeer::SendBatch(const v1::FetchShare& fetch) {
  Offered& offered = offered_.at(fetch.lease_id());
  if (fetch.first_segment() == 0) offered.share_serial = ++last_serial_;
  const Segment& segment = offered.segments.at(fetch.first_segment());
  v1::DaemonPacket packet;
  v1::ShareBatch& batch = *packet.mutable_share_batch();
  batch.set_lease_id(fetch.lease_id());
  batch.set_share_serial(offered.share_serial);
  batch.set_region_id(offered.region_id);
  batch.set_first_segment(fetch.first_segment());
  batch.set_segment_count(static_cast<uint32_t>(offered.segments.size()));
  batch.add_segment_sizes(segment.bytes);
  std::vector<UniqueFd> fds;
  fds.push_back(segment.fd());
  Send(packet, fds);
}

void HandlePeer::SendPoolBatch(const v1::FetchPool& fetch) {
  v1::DaemonPacket packet;
  std::vector<UniqueFd> fds;
  packet.mutable_pool_batch()->set_pool_id(fetch.pool_id());
  for (const uint64_t offset : fetch.offsets()) {
    v1::PoolSegment& segment = *packet.mutable_pool_batch()->add_segments();
    segment.set_offset(offset);
    segment.set_size(pool_segment_.bytes);
    segment.set_share_serial(++last_serial_);
    fds.push_back(pool_segment_.fd());
  }
  if (edit_ == nullptr || edit_(packet, fds)) Send(packet, fds);
}

void HandlePeer::Send(const v1::DaemonPacket& packet, const std::vector<UniqueFd>& fds) {
  if (!socket_) return;
  std::string bytes = packet.SerializeAsString();
  iovec part{bytes.data(), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::vector<int> numbers;
  for (const UniqueFd& fd : fds) {
    if (fd.valid()) numbers.push_back(fd.get());
  }
  const size_t size = numbers.size() * sizeof(int);
  alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
  if (!numbers.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(size);
    memcpy(CMSG_DATA(header), numbers.data(), size);
  }
  sendmsg(socket_->fd(), &message, MSG_NOSIGNAL);
}

}  // namespace tenure::client
