#include "server/http_server.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <civetweb.h>
#include <netdb.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/unique_fd.h"

namespace tenure {
namespace {

// A reply goes out piece by piece, so that somebody who reads it byte by byte is noticed.
constexpr size_t kPiece = size_t{64} << 10;
constexpr Duration kReplyTimeout = std::chrono::seconds(10);

HttpReply Refuse(int status, const std::string& why) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = why + "\n"};
}

std::string HeaderOf(const HttpReply& reply) {
  const std::string policy =
      reply.policy.empty() ? "default-src 'none'; frame-ancestors 'none'" : reply.policy;
  std::string header = "HTTP/1.1 " + std::to_string(reply.status) + " " +
                       mg_get_response_code_text(nullptr, reply.status) + "\r\n";
  header += "Content-Type: " + reply.type + "\r\n";
  header += "Content-Length: " + std::to_string(reply.body.size()) + "\r\n";
  if (reply.status == 405) header += "Allow: GET, HEAD\r\n";
  header += "Cache-Control: no-store\r\n";
  header += "Content-Security-Policy: " + policy + "\r\n";
  header += "X-Content-Type-Options: nosniff\r\n";
  header += "X-Frame-Options: DENY\r\n";
  header += "Referrer-Policy: no-referrer\r\n";
  header += "Cross-Origin-Resource-Policy: same-origin\r\n";
  header += "Connection: close\r\n\r\n";
  return header;
}

void Send(mg_connection* connection, std::string_view text) {
  const SteadyClock clock;
  const Instant latest = clock.Now() + kReplyTimeout;
  while (!text.empty() && clock.Now() < latest) {
    const std::string_view piece = text.substr(0, kPiece);
    if (mg_write(connection, piece.data(), piece.size()) < static_cast<int>(piece.size())) return;
    text.remove_prefix(piece.size());
  }
}

}  // namespace

StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const std::string& address,
                                                        HttpPages pages) {
  TENURE_ASSIGN_OR_RETURN(HttpAddress found, FindHttpAddress(address));
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(found), std::move(pages)));
  const std::string threads = std::to_string(kThreads);
  const std::string timeout = std::to_string(kRequestTimeoutMs);
  const std::string most_request = std::to_string(kMostRequest);
  std::array<const char*, 13> options = {"listening_ports",
                                         server->address_.numeric.c_str(),
                                         "num_threads",
                                         threads.c_str(),
                                         "request_timeout_ms",
                                         timeout.c_str(),
                                         "max_request_size",
                                         most_request.c_str(),
                                         "enable_keep_alive",
                                         "no",
                                         "enable_auth_domain_check",
                                         "no",
                                         nullptr};
  mg_callbacks callbacks{};
  callbacks.begin_request = &HttpServer::OnRequest;
  callbacks.log_message = &HttpServer::OnLog;
  std::array<char, 256> fault{};
  mg_init_data init{
      .callbacks = &callbacks, .user_data = server.get(), .configuration_options = options.data()};
  mg_error_data error{.code = nullptr, .text = fault.data(), .text_buffer_size = fault.size()};
  server->server_ = mg_start2(&init, &error);
  if (server->server_ == nullptr) {
    return Error(Reason::kBackend,
                 "metrics.address: cannot serve HTTP: " + address + ": " + fault.data());
  }
  mg_server_port port{};
  TENURE_CHECK(mg_get_server_ports(server->server_, 1, &port) == 1);
  server->listens_at_ = address.substr(0, address.rfind(':') + 1) + std::to_string(port.port);
  return server;
}

HttpServer::HttpServer(HttpAddress address, HttpPages pages)
    : address_(std::move(address)), pages_(std::move(pages)) {
  mg_init_library(0);
}

HttpServer::~HttpServer() {
  // The thread that accepts sees that it is to stop when somebody connects, or else after up to two
  // seconds.
  std::atomic<bool> stopped = server_ == nullptr;
  std::thread stopping([this, &stopped] {
    if (server_ != nullptr) mg_stop(server_);
    stopped.store(true);
  });
  while (!stopped.load()) {
    Knock();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stopping.join();
  mg_exit_library();
}

void HttpServer::Knock() const {
  const size_t colon = listens_at_.rfind(':');
  const std::string host = address_.numeric.substr(0, address_.numeric.rfind(':'));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const bool v6 = host.starts_with('[');
  if (getaddrinfo((v6 ? host.substr(1, host.size() - 2) : host).c_str(),
                  listens_at_.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return;
  }
  const UniqueFd fd(
      socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol));
  if (fd.valid()) (void)connect(fd.get(), found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
}

HttpReply HttpServer::Answer(const mg_connection* connection) const {
  const mg_request_info& request = *mg_get_request_info(connection);
  const char* const host = mg_get_header(connection, "Host");
  if (host != nullptr && !MeansUs(address_, host)) {
    return Refuse(403, "no such host here; ask for localhost, or have metrics.address say so");
  }
  const std::string_view method = request.request_method;
  if (method != "GET" && method != "HEAD") return Refuse(405, "GET and HEAD only");
  const auto page = pages_.find(std::string_view(request.local_uri));
  if (page != pages_.end()) return page->second();
  std::string known;
  for (const auto& [path, unused] : pages_) known += "\n" + path;
  return Refuse(404, "no such page; there are" + known);
}

int HttpServer::OnRequest(mg_connection* connection) {
  const mg_request_info& request = *mg_get_request_info(connection);
  const auto& server = *static_cast<const HttpServer*>(request.user_data);
  const HttpReply reply = server.Answer(connection);
  const bool head = std::string_view(request.request_method) == "HEAD";
  Send(connection, HeaderOf(reply) + (head ? "" : reply.body));
  return reply.status;
}

int HttpServer::OnLog(const mg_connection*, const char* message) {
  spdlog::debug("http {}", message);
  return 1;
}

}  // namespace tenure
