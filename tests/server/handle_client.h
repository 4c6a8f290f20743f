#pragma once

// Clients of the handle socket for tests: one that speaks inside the test's process, and one that
// is a process of its own and can be killed.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <string.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/unique_fd.h"
#include "tenure/v1/handle.pb.h"

namespace tenure {

// Longer than anything takes that is not broken.
inline constexpr int kPatienceMs = 20'000;

// True as soon as `holds`, false if it does not within kPatienceMs.
inline bool Eventually(const std::function<bool()>& holds) {
  const SteadyClock clock;
  const Instant end = After(clock.Now(), std::chrono::milliseconds(kPatienceMs));
  while (!holds()) {
    if (clock.Now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Says and hears packets. Throws where only the machine can be at fault.
class HandleClient {
 public:
  struct Heard {
    v1::DaemonPacket packet;
    std::vector<UniqueFd> fds;
  };

  explicit HandleClient(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    if (connect(socket(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect: " + path);
    }
  }

  int socket() const { return socket_.get(); }
  void HangUp() { socket_.Reset(); }

  // False if the daemon does not take it.
  bool SayBytes(std::string_view bytes, const std::vector<int>& fds = {}) {
    iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    std::array<char, 1024> control{};
    if (!fds.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
      memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
    }
    return sendmsg(socket(), &message, MSG_NOSIGNAL) >= 0;
  }
  bool Say(const v1::ClientPacket& packet) { return SayBytes(packet.SerializeAsString()); }

  bool SayHello(uint32_t version = 1, const std::string& program = "tester") {
    v1::ClientPacket packet;
    packet.mutable_hello()->set_protocol_version(version);
    packet.mutable_hello()->set_program(program);
    packet.mutable_hello()->set_instance("7");
    return Say(packet);
  }
  bool SayHeartbeat(uint64_t sequence) {
    v1::ClientPacket packet;
    packet.mutable_heartbeat()->set_sequence(sequence);
    return Say(packet);
  }
  bool SayFetch(LeaseId lease, uint32_t first) {
    v1::ClientPacket packet;
    packet.mutable_fetch_share()->set_lease_id(lease.value());
    packet.mutable_fetch_share()->set_first_segment(first);
    return Say(packet);
  }
  bool SayAck(uint64_t share, uint32_t next) {
    v1::ClientPacket packet;
    packet.mutable_share_ack()->set_share_serial(share);
    packet.mutable_share_ack()->set_next_segment(next);
    return Say(packet);
  }
  bool SayUnmapped(const std::vector<uint64_t>& shares) {
    v1::ClientPacket packet;
    for (const uint64_t share : shares) packet.mutable_unmapped()->add_share_serials(share);
    return Say(packet);
  }
  bool SayGoodbye() {
    v1::ClientPacket packet;
    packet.mutable_goodbye();
    return Say(packet);
  }

  // The next packet, with the fds that came with it. nullopt at the end of the connection, or if
  // nothing comes within `wait_ms`; `ended` tells the one from the other.
  std::optional<Heard> Hear(int wait_ms = kPatienceMs) {
    pollfd state{.fd = socket(), .events = POLLIN, .revents = 0};
    if (poll(&state, 1, wait_ms) != 1) return std::nullopt;
    std::string bytes(64 << 10, '\0');
    iovec part{.iov_base = bytes.data(), .iov_len = bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) std::array<char, 2048> control{};
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = recvmsg(socket(), &message, MSG_CMSG_CLOEXEC);
    if (size <= 0) {
      ended_ = true;
      return std::nullopt;
    }
    Heard heard;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
         header = CMSG_NXTHDR(&message, header)) {
      const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
        heard.fds.emplace_back(fd);
      }
    }
    if (!heard.packet.ParseFromArray(bytes.data(), static_cast<int>(size))) {
      throw std::runtime_error("the daemon said something that cannot be parsed");
    }
    return heard;
  }
  bool ended() const { return ended_; }
  // The daemon hangs up, having said nothing more.
  bool HearsTheEnd() { return !Hear().has_value() && ended_; }
  // A heartbeat is answered, and nothing comes before the answer.
  bool IsServed() {
    const uint64_t sequence = ++last_sequence_;
    if (!SayHeartbeat(sequence)) return false;
    const std::optional<Heard> heard = Hear();
    return heard.has_value() && heard->packet.heartbeat_reply().sequence() == sequence;
  }

  // Says hello and hears the welcome.
  v1::Welcome Join() {
    SayHello();
    const std::optional<Heard> heard = Hear();
    if (!heard.has_value() || !heard->packet.has_welcome()) {
      throw std::runtime_error("no welcome");
    }
    session_ = SessionId(heard->packet.welcome().session_id());
    return heard->packet.welcome();
  }
  SessionId session() const { return session_; }

  // All segments of a lease's region, batch by batch; the serial of the share.
  uint64_t FetchAll(LeaseId lease, std::vector<UniqueFd>& fds) {
    while (true) {
      SayFetch(lease, static_cast<uint32_t>(fds.size()));
      std::optional<Heard> heard = Hear();
      if (!heard.has_value() || !heard->packet.has_share_batch()) {
        throw std::runtime_error("no batch");
      }
      const v1::ShareBatch& batch = heard->packet.share_batch();
      std::move(heard->fds.begin(), heard->fds.end(), std::back_inserter(fds));
      SayAck(batch.share_serial(), static_cast<uint32_t>(fds.size()));
      if (fds.size() >= batch.segment_count()) return batch.share_serial();
    }
  }

 private:
  UniqueFd socket_;
  bool ended_ = false;
  uint64_t last_sequence_ = 1'000'000;
  SessionId session_;
};

// A client in a process of its own, which does what it is told until it ends. Make it before there
// are other threads. Killed at the latest by the destructor.
class ClientProcess {
 public:
  ClientProcess() {
    std::array<int, 2> pair{};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair.data()) != 0)
      throw std::runtime_error("socketpair");
    pid_ = fork();
    if (pid_ == 0) {
      close(pair[0]);
      Obey(pair[1]);
    }
    close(pair[1]);
    orders_ = UniqueFd(pair[0]);
  }
  ~ClientProcess() {
    Kill();
    if (grandchild_ > 0) kill(grandchild_, SIGKILL);
  }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  pid_t pid() const { return pid_; }
  SessionId Join(const std::string& path) { return SessionId(Order('j' + path)); }
  void Fetch(LeaseId lease) { Order('f' + std::to_string(lease.value())); }
  // Asks for the first Segments and does not wait for the answer.
  void Ask(LeaseId lease) { Order('a' + std::to_string(lease.value())); }
  void HangUp() { Order("h"); }
  // Breaks the protocol.
  void Offend() { Order("o"); }
  // A child that holds the socket and outlives the client.
  void Fork() { grandchild_ = static_cast<pid_t>(Order("g")); }
  // Says goodbye and ends at once, without having heard anything more.
  void Leave() { Order("b"); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

 private:
  // Throws if the client did not do it.
  uint64_t Order(const std::string& order) {
    uint64_t answer = 0;
    if (send(orders_.get(), order.data(), order.size(), MSG_NOSIGNAL) < 0 ||
        recv(orders_.get(), &answer, sizeof answer, 0) != sizeof answer) {
      throw std::runtime_error("the client process did not obey: " + order);
    }
    return answer;
  }

  [[noreturn]] static void Obey(int orders) {
    std::optional<HandleClient> client;
    std::vector<UniqueFd> fds;
    std::array<char, 512> order{};
    while (true) {
      const ssize_t size = recv(orders, order.data(), order.size(), 0);
      if (size <= 0) _exit(0);
      const std::string argument(order.data() + 1, static_cast<size_t>(size - 1));
      uint64_t answer = 0;
      bool leave = false;
      try {
        switch (order[0]) {
          case 'j':
            client.emplace(argument);
            answer = client->Join().session_id();
            break;
          case 'f':
            client->FetchAll(LeaseId(std::stoull(argument)), fds);
            break;
          case 'a':
            client->SayFetch(LeaseId(std::stoull(argument)), 0);
            break;
          case 'h':
            client->HangUp();
            break;
          case 'o':
            client->SayBytes("");
            break;
          case 'g':
            answer = static_cast<uint64_t>(fork());
            if (answer == 0) {
              close(orders);
              while (true) pause();
            }
            break;
          default:
            client->SayHeartbeat(1);  // whose answer is never read
            client->SayGoodbye();
            leave = true;
        }
      } catch (const std::exception&) {
        _exit(1);
      }
      send(orders, &answer, sizeof answer, MSG_NOSIGNAL);
      if (leave) _exit(0);
    }
  }

  UniqueFd orders_;
  pid_t pid_ = 0;
  pid_t grandchild_ = 0;
};

}  // namespace tenure
