#pragma once

#include <arpa/inet.h>
#include <array>
#include <netinet/in.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <utility>

#include "core/base/unique_fd.h"

namespace tenure {

// A connection to "127.0.0.1:port" that has said `words`. Throws std::runtime_error.
inline UniqueFd Dial(const std::string& address, std::string_view words) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  to.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0 ||
      send(fd.get(), words.data(), words.size(), MSG_NOSIGNAL) < 0) {
    throw std::runtime_error("cannot ask " + address);
  }
  return fd;
}

// All that comes back for `request`.
inline std::string Exchange(const std::string& address, std::string_view request) {
  const UniqueFd fd = Dial(address, request);
  std::string reply;
  std::array<char, 16384> piece{};
  ssize_t size = 0;
  while ((size = recv(fd.get(), piece.data(), piece.size(), 0)) > 0) {
    reply.append(piece.data(), static_cast<size_t>(size));
  }
  return reply;
}

inline std::string Get(const std::string& address, const std::string& path) {
  return Exchange(address, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

inline std::string BodyOf(const std::string& reply) {
  const size_t end = reply.find("\r\n\r\n");
  return end == std::string::npos ? "" : reply.substr(end + 4);
}

}  // namespace tenure
