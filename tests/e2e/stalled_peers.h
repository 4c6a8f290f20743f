#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"

namespace tenure {

// Connections to a daemon's sockets that never say a whole word. Throws std::runtime_error if they
// are not taken. Thread-compatible.
class StalledPeers {
 public:
  // So many on each socket in `directory`; every second of them has said a little.
  StalledPeers(const std::string& directory, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      const bool mute = i % 2 == 0;
      Add(directory + "/grpc.sock", SOCK_STREAM, mute ? "" : "PRI * HTTP/2.0\r\n");
      // A packet is whole or not there at all: this is half of what a hello would be.
      Add(directory + "/handle.sock", SOCK_SEQPACKET, mute ? "" : "\x0a");
    }
  }

 private:
  void Add(const std::string& path, int type, std::string_view words) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof address.sun_path - 1));
    UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      throw std::runtime_error("cannot connect: " + path);
    }
    // Whether it is still listened to is up to the daemon.
    if (!words.empty()) (void)!send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL);
    connections_.push_back(std::move(fd));
  }

  std::vector<UniqueFd> connections_;
};

}  // namespace tenure
