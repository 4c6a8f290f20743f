#include "server/http_address.h"

#include <algorithm>
#include <array>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace tenure {
namespace {

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    return (ntohl(v4.sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

// Without its port, and without the brackets of a v6 address.
std::string_view NameIn(std::string_view host) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end == std::string_view::npos ? host : host.substr(1, end - 1);
  }
  return host.substr(0, host.rfind(':'));
}

bool EqualIgnoringCase(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

StatusOr<HttpAddress> FindHttpAddress(const std::string& address) {
  HttpAddress found;
  const size_t colon = address.rfind(':');
  found.host = NameIn(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int failure = colon == std::string::npos
                          ? EAI_NONAME
                          : getaddrinfo(found.host.c_str(), nullptr, &hints, &list);
  if (failure != 0) {
    return Error(Reason::kBackend, "metrics.address: no such host: " + address + ": " +
                                       std::string(gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(list->ai_addr, list->ai_addrlen, text.data(), text.size(), nullptr, 0,
                  NI_NUMERICHOST) != 0) {
    return Error(Reason::kBackend, "metrics.address: no address to listen at: " + address);
  }
  const std::string numeric =
      list->ai_family == AF_INET6 ? "[" + std::string(text.data()) + "]" : text.data();
  found.numeric = numeric + address.substr(colon);
  found.loopback = IsLoopback(*list->ai_addr);
  return found;
}

bool MeansUs(const HttpAddress& address, std::string_view host_header) {
  if (!address.loopback) return true;
  const std::string_view name = NameIn(host_header);
  const std::array<std::string_view, 4> ours = {"localhost", "127.0.0.1", "::1", address.host};
  return std::any_of(ours.begin(), ours.end(),
                     [&](std::string_view each) { return EqualIgnoringCase(each, name); });
}

}  // namespace tenure
