#include "server/http_server.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <vector>

#include "core/base/clock.h"
#include "tests/server/http_exchange.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    HttpPages pages = {
        {"/",
         [] { return HttpReply{.type = "text/html", .body = "<p>", .policy = "img-src data:"}; }},
        {"/five", [] { return HttpReply{.type = "text/plain", .body = "five\n"}; }},
        {"/large",
         [] { return HttpReply{.type = "text/plain", .body = std::string(64 << 20, 'x')}; }}};
    StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start("127.0.0.1:0", pages);
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  const std::string& address() const { return server_->address(); }
  std::string Ask(const std::string& method, const std::string& path,
                  const std::string& host = "localhost") const {
    return Exchange(address(), method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  }
  template <typename Call>
  Duration TimeOf(const Call& call) const {
    const Instant start = clock_.Now();
    call();
    return clock_.Now() - start;
  }
  // So many connections; every second of them has begun a request.
  std::vector<UniqueFd> Stall(size_t count) const {
    std::vector<UniqueFd> peers;
    for (size_t i = 0; i < count; ++i) {
      peers.push_back(Dial(address(), i % 2 == 0 ? "" : "GET /five HTTP/1.1\r\nHost: loc"));
    }
    return peers;
  }

  SteadyClock clock_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, ServesAtAnyFreePortAndSaysWhere) {
  EXPECT_THAT(address(), StartsWith("127.0.0.1:"));
  EXPECT_NE(address(), "127.0.0.1:0");
  EXPECT_FALSE(HttpServer::Start(address(), {}).ok());
  EXPECT_TRUE(HasReason(HttpServer::Start("nowhere.invalid:1", {}).status(), Reason::kBackend));
  const auto named = HttpServer::Start("localhost:0", {});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT((*named)->address(), StartsWith("localhost:"));
}

TEST_F(HttpServerTest, AnswersGetWithThePageAndHeadWithoutIt) {
  const std::string got = Ask("GET", "/five");
  EXPECT_THAT(got, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(got, HasSubstr("Content-Type: text/plain\r\n"));
  EXPECT_EQ(BodyOf(got), "five\n");
  EXPECT_EQ(BodyOf(Ask("GET", "/five?a=b")), "five\n");
  const std::string head = Ask("HEAD", "/five");
  EXPECT_THAT(head, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(head, EndsWith("\r\n\r\n"));
}

TEST_F(HttpServerTest, EveryReplyForbidsWhatItDoesNotNeed) {
  for (const char* path : {"/five", "/nothing"}) {
    const std::string reply = Ask("GET", path);
    for (const char* header : {"Cache-Control: no-store\r\n", "X-Content-Type-Options: nosniff\r\n",
                               "X-Frame-Options: DENY\r\n",
                               "Content-Security-Policy: default-src 'none'; frame-ancestors",
                               "Connection: close\r\n"}) {
      EXPECT_THAT(reply, HasSubstr(header)) << path;
    }
    EXPECT_THAT(reply, Not(HasSubstr("Access-Control-Allow"))) << path;
  }
  EXPECT_THAT(Ask("GET", "/"), HasSubstr("Content-Security-Policy: img-src data:\r\n"));
}

TEST_F(HttpServerTest, NothingButGetAndHeadIsAllowed) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string reply = Ask(method, "/five");
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 405 ")) << method;
    EXPECT_THAT(reply, HasSubstr("Allow: GET, HEAD\r\n")) << method;
  }
}

TEST_F(HttpServerTest, NoFileCanBeAskedFor) {
  for (const char* path :
       {"/nothing", "/etc/passwd", "/../../etc/passwd", "/%2e%2e/etc/passwd", "/five/"}) {
    EXPECT_THAT(Ask("GET", path), StartsWith("HTTP/1.1 404 ")) << path;
  }
}

TEST_F(HttpServerTest, OnLoopbackOnlyTheMachinesOwnNamesAreServed) {
  for (const char* host : {"localhost", "LOCALHOST:80", "127.0.0.1", "[::1]:9400", "127.0.0.1:1"}) {
    EXPECT_THAT(Ask("GET", "/five", host), StartsWith("HTTP/1.1 200 ")) << host;
  }
  for (const char* host : {"rebound.example", "rebound.example:9400", "localhost.rebound.example",
                           "127.0.0.1.rebound.example", "[fe80::1]"}) {
    EXPECT_THAT(Ask("GET", "/five", host), StartsWith("HTTP/1.1 403 ")) << host;
  }
}

TEST(HttpAddressTest, ANameThatIsConfiguredIsServedAndElsewhereAllAre) {
  const HttpAddress own{.host = "gpu-7", .numeric = "127.0.1.1:1", .loopback = true};
  EXPECT_TRUE(MeansUs(own, "GPU-7:9400"));
  EXPECT_FALSE(MeansUs(own, "gpu-8"));
  const StatusOr<HttpAddress> everywhere = FindHttpAddress("0.0.0.0:9400");
  ASSERT_TRUE(everywhere.ok());
  EXPECT_FALSE(everywhere->loopback);
  EXPECT_TRUE(MeansUs(*everywhere, "node-3.example:9400"));
  EXPECT_TRUE(FindHttpAddress("[::1]:9400")->loopback);
  EXPECT_EQ(FindHttpAddress("[::1]:9400")->numeric, "[::1]:9400");
  EXPECT_TRUE(FindHttpAddress("127.9.9.9:9400")->loopback);
}

TEST_F(HttpServerTest, ARequestThatIsTooLongIsNotServed) {
  const std::string reply =
      Exchange(address(), "GET /five HTTP/1.1\r\nHost: localhost\r\nX: " +
                              std::string(2 * HttpServer::kMostRequest, 'x') + "\r\n\r\n");
  EXPECT_THAT(reply, Not(HasSubstr("200 OK")));
  EXPECT_EQ(BodyOf(Ask("GET", "/five")), "five\n");
}

// Field cases 37 and 40, of what they ask of HTTP.
TEST_F(HttpServerTest, PeersThatStallDelayNobodyAsLongAsThereAreThreads) {
  const std::vector<UniqueFd> peers = Stall(HttpServer::kThreads - 4);
  EXPECT_LT(TimeOf([&] { EXPECT_EQ(BodyOf(Ask("GET", "/five")), "five\n"); }), seconds(1));
}

TEST_F(HttpServerTest, AnyNumberOfThemDelaysOthersForTheirTimeoutsOnly) {
  const std::vector<UniqueFd> peers = Stall(2 * HttpServer::kThreads);
  const Duration turns = milliseconds(3 * HttpServer::kRequestTimeoutMs);
  EXPECT_LT(TimeOf([&] { EXPECT_EQ(BodyOf(Ask("GET", "/five")), "five\n"); }), 2 * turns);
}

TEST_F(HttpServerTest, WhoDoesNotReadTheReplyDelaysNobody) {
  std::vector<UniqueFd> peers;
  for (int i = 0; i < 8; ++i) {
    peers.push_back(Dial(address(), "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  }
  EXPECT_LT(TimeOf([&] { EXPECT_EQ(BodyOf(Ask("GET", "/five")), "five\n"); }), seconds(2));
}

TEST_F(HttpServerTest, EndsAtOnce) {
  EXPECT_EQ(BodyOf(Ask("GET", "/five")), "five\n");
  EXPECT_LT(TimeOf([&] { server_.reset(); }), seconds(1));
}

TEST_F(HttpServerTest, EndsThoughPeersStall) {
  std::vector<UniqueFd> peers = Stall(100);
  peers.push_back(Dial(address(), "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n"));
  EXPECT_LT(TimeOf([&] { server_.reset(); }), 3 * milliseconds(HttpServer::kRequestTimeoutMs));
}

}  // namespace
}  // namespace tenure
