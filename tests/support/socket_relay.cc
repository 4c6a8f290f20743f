#include "tests/support/socket_relay.h"

#include <array>
#include <filesystem>
#include <poll.h>
#include <stdexcept>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace tenure {
namespace {

constexpr char kSocketName[] = "/grpc.sock";

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) throw std::runtime_error("path too long: " + path);
  memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

UniqueFd Connect(const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    fd.Reset();
  }
  return fd;
}

UniqueFd Listen(const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
      listen(fd.get(), 16) != 0) {
    throw std::runtime_error("cannot listen on " + path);
  }
  return fd;
}

// Passes on what can be read. False at the end.
bool Pass(const UniqueFd& from, const UniqueFd& to) {
  std::array<char, 1 << 16> buffer{};
  const ssize_t got = read(from.get(), buffer.data(), buffer.size());
  for (ssize_t done = 0; done < got;) {
    const ssize_t sent =
        send(to.get(), buffer.data() + done, static_cast<size_t>(got - done), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += sent;
  }
  return got > 0;
}

}  // namespace

SocketRelay::SocketRelay(const std::string& daemon_directory)
    : daemon_socket_(daemon_directory + kSocketName),
      listener_(Listen(directory() + kSocketName)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  std::filesystem::create_symlink(daemon_directory + "/handle.sock", temp_ / "handle.sock");
  thread_ = std::thread([this] { Run(); });
}

SocketRelay::~SocketRelay() {
  {
    const MutexLock lock(mutex_);
    closing_ = true;
  }
  Wake();
  thread_.join();
}

void SocketRelay::HoldReplies() {
  const MutexLock lock(mutex_);
  held_ = true;
}

void SocketRelay::Break() {
  const MutexLock lock(mutex_);
  broken_ = true;
  Wake();
}

void SocketRelay::Mend() {
  const MutexLock lock(mutex_);
  broken_ = false;
  held_ = false;
}

void SocketRelay::Wake() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof(one));
}

void SocketRelay::Run() {
  std::vector<pollfd> entries;
  while (true) {
    entries = {{wake_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    {
      const MutexLock lock(mutex_);
      if (closing_) return;
      if (broken_) pairs_.clear();
      for (const Pair& pair : pairs_) {
        entries.push_back({pair.client.get(), POLLIN, 0});
        // Not looked at while its words are held.
        entries.push_back({held_ ? -1 : pair.daemon.get(), POLLIN, 0});
      }
    }
    poll(entries.data(), entries.size(), -1);
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t drained = read(wake_.get(), &wakes, sizeof(wakes));

    const MutexLock lock(mutex_);
    for (size_t i = pairs_.size(); i-- > 0;) {
      const Pair& pair = pairs_[i];
      const bool asked = entries[2 + 2 * i].revents != 0;
      const bool answered = entries[3 + 2 * i].revents != 0 && !held_;
      if ((asked && !Pass(pair.client, pair.daemon)) ||
          (answered && !Pass(pair.daemon, pair.client))) {
        pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
    if (entries[1].revents != 0) Accept();
  }
}

void SocketRelay::Accept() {
  Pair pair{.client = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)),
            .daemon = {}};
  if (broken_ || !pair.client.valid()) return;
  pair.daemon = Connect(daemon_socket_);
  if (pair.daemon.valid()) pairs_.push_back(std::move(pair));
}

}  // namespace tenure
