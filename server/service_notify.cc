#include "server/service_notify.h"

#include <absl/strings/numbers.h>
#include <chrono>
#include <cstddef>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>

namespace tenure {
namespace {

// Empty without it. Takes it out of the environment.
std::string TakeVariable(const char* name) {
  const char* value = getenv(name);
  std::string text = value == nullptr ? "" : value;
  unsetenv(name);
  return text;
}

std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\n') c = ' ';
  }
  return text;
}

}  // namespace

ServiceNotify ServiceNotify::FromEnvironment() {
  const std::string socket = TakeVariable("NOTIFY_SOCKET");
  const std::string period = TakeVariable("WATCHDOG_USEC");
  const std::string pid = TakeVariable("WATCHDOG_PID");
  int64_t microseconds = 0;
  const bool ours = pid.empty() || pid == std::to_string(getpid());
  const bool watched = ours && absl::SimpleAtoi(period, &microseconds) && microseconds > 0;
  return {socket, watched ? Duration(std::chrono::microseconds(microseconds)) : kForever};
}

ServiceNotify::ServiceNotify(const std::string& socket, Duration watchdog) : watchdog_(watchdog) {
  sockaddr_un address{};
  const bool known = socket.starts_with('/') || socket.starts_with('@');
  if (!known || socket.size() < 2 || socket.size() >= sizeof address.sun_path) return;
  address_ = socket;
  if (address_[0] == '@') address_[0] = '\0';
  socket_ = UniqueFd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

ServiceNotify::ServiceNotify(ServiceNotify&& other) noexcept
    : address_(std::move(other.address_)),
      socket_(std::move(other.socket_)),
      watchdog_(other.watchdog_),
      next_sign_(other.next_sign_.load()) {}

void ServiceNotify::Send(const std::string& message) const {
  if (!socket_.valid()) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, address_.data(), address_.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  [[maybe_unused]] const ssize_t sent =
      sendto(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&address), size);
}

void ServiceNotify::Ready(const std::string& status) const {
  Send("READY=1\nSTATUS=" + OneLine(status));
}

void ServiceNotify::Reloading(Instant now) const {
  const auto since_boot =
      std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch());
  Send("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(since_boot.count()));
}

void ServiceNotify::Stopping(const std::string& status) const {
  Send("STOPPING=1\nSTATUS=" + OneLine(status));
}

void ServiceNotify::Status(const std::string& status) const { Send("STATUS=" + OneLine(status)); }

void ServiceNotify::Alive(Instant now) {
  if (watchdog_ == kForever || now < next_sign_.load()) return;
  next_sign_.store(After(now, watchdog_ / 2));
  Send("WATCHDOG=1");
}

}  // namespace tenure
