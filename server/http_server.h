#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/status.h"
#include "server/http_address.h"

struct mg_connection;
struct mg_context;

namespace tenure {

// What a path answers.
struct HttpReply {
  int status = 200;
  std::string type;  // "application/json"
  std::string body;
  // A Content-Security-Policy for what the reply may load and run; empty: nothing.
  std::string policy = {};
};

// Makes the reply to a GET. Called by several threads at once.
using HttpPage = std::function<HttpReply()>;
// By path: "/metrics".
using HttpPages = std::map<std::string, HttpPage, std::less<>>;

// Serves pages over HTTP, to be read only: GET and HEAD, no other method, no file. A request that
// is not there kRequestTimeout after its connection was accepted, or whose sender does not read the
// reply for as long, is dropped; until then it holds one of kThreads threads, so that so many can
// stall without anybody else's waiting.
class HttpServer {
 public:
  static constexpr int kThreads = 64;
  static constexpr int kRequestTimeoutMs = 2000;
  // Of a request's line and headers together, in bytes.
  static constexpr int kMostRequest = 8192;

  // Listens at "host:port"; port 0: any that is free. BACKEND if the machine refuses.
  static StatusOr<std::unique_ptr<HttpServer>> Start(const std::string& address, HttpPages pages);

  // Ends at once, whoever stalls.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Where it really listens.
  const std::string& address() const { return listens_at_; }

 private:
  HttpServer(HttpAddress address, HttpPages pages);

  static int OnRequest(mg_connection* connection);
  static int OnLog(const mg_connection* connection, const char* message);
  HttpReply Answer(const mg_connection* connection) const;
  // Wakes the thread that accepts.
  void Knock() const;

  const HttpAddress address_;
  const HttpPages pages_;
  std::string listens_at_;
  mg_context* server_ = nullptr;
};

}  // namespace tenure
