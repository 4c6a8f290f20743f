#pragma once

#include <chrono>
#include <deque>
#include <string.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>

#include "core/base/unique_fd.h"
#include "tests/client/eventually.h"

namespace tenure {

// The service manager's end of sd_notify: keeps what a daemon says. Thread-compatible.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.data(), path.size());
    if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot bind " + path);
    }
  }

  // True as soon as a message comes that has the line; what came before is forgotten.
  bool Hears(const std::string& line) {
    return Eventually([&] {
      char buffer[4096];
      const ssize_t size = recv(socket_.get(), buffer, sizeof buffer, 0);
      if (size <= 0) return false;
      last_ = std::string(buffer, static_cast<size_t>(size));
      return ("\n" + last_ + "\n").find("\n" + line + "\n") != std::string::npos;
    });
  }
  // The message that had it.
  const std::string& last() const { return last_; }

 private:
  const UniqueFd socket_;
  std::string last_;
};

}  // namespace tenure
