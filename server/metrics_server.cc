#include "server/metrics_server.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <netdb.h>
#include <sys/socket.h>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"

namespace tenure {
namespace {

// Connects to "host:port" and hangs up, without waiting for anything.
void Knock(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), address.substr(colon + 1).c_str(), &hints, &found) != 0) return;
  const UniqueFd fd(
      socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol));
  if (fd.valid()) (void)connect(fd.get(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
}

}  // namespace

StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& address,
                                                              std::shared_ptr<Metrics> metrics) {
  // The exposer reports by exception; none leaves this function.
  try {
    auto exposer = std::make_unique<prometheus::Exposer>(address);
    const std::vector<int> ports = exposer->GetListeningPorts();
    const std::string host = address.substr(0, address.rfind(':') + 1);
    exposer->RegisterCollectable(metrics);
    return std::unique_ptr<MetricsServer>(new MetricsServer(
        std::move(exposer), ports.empty() ? address : host + std::to_string(ports.front()),
        std::move(metrics)));
  } catch (const std::exception& error) {
    return Error(Reason::kBackend, "cannot serve metrics: " + address + ": " + error.what());
  }
}

MetricsServer::MetricsServer(std::unique_ptr<prometheus::Exposer> exposer, std::string address,
                             std::shared_ptr<Metrics> metrics)
    : metrics_(std::move(metrics)), address_(std::move(address)), exposer_(std::move(exposer)) {}

MetricsServer::~MetricsServer() {
  // The HTTP server sees that it is to stop when its listening thread wakes up: when somebody
  // connects, or else after up to two seconds.
  std::atomic<bool> closed = false;
  std::thread closing([this, &closed] {
    exposer_.reset();
    closed.store(true);
  });
  while (!closed.load()) {
    Knock(address_);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  closing.join();
}

}  // namespace tenure
