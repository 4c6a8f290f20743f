#include "tests/e2e/scrape.h"

#include <array>
#include <netdb.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/unique_fd.h"

namespace tenure {
namespace {

UniqueFd ConnectTo(const std::string& address) {
  const size_t colon = address.rfind(':');
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.substr(0, colon).c_str(), address.substr(colon + 1).c_str(), &hints,
                  &found) != 0) {
    throw std::runtime_error("no address: " + address);
  }
  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, found->ai_protocol));
  const bool connected = fd.valid() && connect(fd.get(), found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  if (!connected) throw std::runtime_error("cannot connect: " + address);
  return fd;
}

}  // namespace

Scrape Scrape::Of(const std::string& address) {
  const UniqueFd fd = ConnectTo(address);
  const std::string request =
      "GET /metrics HTTP/1.1\r\nHost: " + address + "\r\nConnection: close\r\n\r\n";
  if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) {
    throw std::runtime_error("cannot ask " + address);
  }
  std::string reply;
  std::array<char, 16384> piece{};
  ssize_t size = 0;
  while ((size = recv(fd.get(), piece.data(), piece.size(), 0)) > 0) {
    reply.append(piece.data(), static_cast<size_t>(size));
  }
  if (!reply.starts_with("HTTP/1.1 200")) throw std::runtime_error("no metrics: " + reply);
  Scrape scrape;
  std::istringstream text(reply.substr(reply.find("\r\n\r\n") + 4));
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("tenure_")) scrape.lines_.push_back(line);
  }
  return scrape;
}

uint64_t Scrape::Value(std::string_view name, std::string_view label) const {
  double sum = 0;
  bool any = false;
  for (const std::string_view line : lines_) {
    const size_t end = line.find_first_of("{ ");
    const size_t space = line.rfind(' ');
    if (line.substr(0, end) != name) continue;
    if (line.substr(0, space).find(label) == std::string_view::npos) continue;
    sum += std::stod(std::string(line.substr(space + 1)));
    any = true;
  }
  if (!any) throw std::runtime_error("no metric " + std::string(name) + " " + std::string(label));
  return static_cast<uint64_t>(sum);
}

uint64_t Scrape::Memory(std::string_view state, std::string_view arena) const {
  return Value("tenure_memory_bytes",
               "arena=\"" + std::string(arena) + "\",state=\"" + std::string(state) + "\"");
}

std::string Scrape::Imbalance() const { return ImbalanceOf("weights") + ImbalanceOf("runtime"); }

std::string Scrape::ImbalanceOf(const std::string& arena) const {
  const std::string label = "arena=\"" + arena + "\"";
  const auto memory = [&](std::string_view state) { return Memory(state, arena); };
  const auto value = [&](std::string_view name) { return Value(name, label); };
  const uint64_t used =
      memory("leased") + memory("loading") + memory("idle") + memory("quarantined");
  const uint64_t allocated = used + memory("padding");
  const uint64_t free = memory("cached") + memory("pooled") + memory("unbacked");
  const uint64_t capacity = value("tenure_arena_capacity_bytes");
  std::string wrong;
  const auto expect = [&](std::string_view what, uint64_t is, uint64_t should) {
    if (is == should) return;
    wrong += arena + ": " + std::string(what) + " is " + std::to_string(is) + ", not " +
             std::to_string(should) + "\n";
  };
  expect("the sum of all states", value("tenure_memory_bytes"), capacity);
  expect("capacity", capacity, allocated + memory("retained") + free + memory("stranded"));
  expect("allocated", value("tenure_arena_allocated_bytes"), allocated);
  // Room that a load has claimed is not unbacked any more; its memory comes a little later.
  const uint64_t reserved = value("tenure_arena_reserved_bytes");
  const uint64_t backed = capacity - memory("unbacked") - memory("stranded");
  if (memory("loading") == 0) expect("reserved", reserved, backed);
  if (reserved > backed) wrong += arena + ": reserved is above what is backed\n";
  expect("requested", value("tenure_arena_requested_bytes"), used);
  if (value("tenure_arena_largest_free_bytes") > free) {
    wrong += arena + ": largest free is above free\n";
  }
  return wrong;
}

}  // namespace tenure
