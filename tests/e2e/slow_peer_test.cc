// Peers that say nothing, and a daemon that does not answer.

#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <utility>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/e2e/models.h"
#include "tests/e2e/stalled_peers.h"
#include "tests/e2e/tenured.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kStalled = 100;
// Guard against a hang: ten times what is promised.
constexpr auto kAtOnce = seconds(1);

class SlowPeerTest : public ::testing::Test {
 protected:
  template <typename Call>
  Duration TimeOf(const Call& call) const {
    const Instant start = clock_.Now();
    call();
    return clock_.Now() - start;
  }

  SteadyClock clock_;
  Tenured daemon_;
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(4)}, 1);
  const Client client_ = daemon_.Connect();
};

// Field cases 18 and 56.
TEST_F(SlowPeerTest, StalledConnectionsDelayNobody) {
  const WeightLease own = LoadAndLease(client_, "a", a_);
  const StalledPeers stalled(daemon_.directory(), kStalled);
  EXPECT_LT(TimeOf([&] {
              EXPECT_TRUE(client::CheckHealth(daemon_.directory(), kAtOnce).value_or(false));
            }),
            kAtOnce);
  EXPECT_LT(TimeOf([&] { EXPECT_TRUE(client_.Acquire({.name = "a"}).ok()); }), kAtOnce);
  EXPECT_LT(TimeOf([&] {
              const Client newcomer = daemon_.Connect("newcomer");
              const auto lease = newcomer.Acquire({.name = "a"});
              ASSERT_TRUE(lease.ok()) << lease.status();
              EXPECT_EQ(Difference(*lease, a_), "");
            }),
            kAtOnce);
  EXPECT_TRUE(own.valid());
}

// Field case 20.
TEST_F(SlowPeerTest, EveryCallToADaemonThatStandsStillEndsByItsDeadline) {
  const std::string directory = daemon_.directory();
  const Client client = *Client::Connect(
      {.directory = directory, .timeout = milliseconds(200), .load_timeout = milliseconds(200)});
  std::optional<WeightLease> lease = LoadAndLease(client_, "a", a_);
  const std::pair<const char*, std::function<absl::Status()>> calls[] = {
      {"Load", [&] { return client.Load({.name = "b", .path = a_.path}).status(); }},
      {"Acquire", [&] { return client.Acquire({.name = "a"}).status(); }},
      {"Unload", [&] { return client.Unload("a").status(); }},
      {"Get", [&] { return client.Get("a").status(); }},
      {"List", [&] { return client.List().status(); }},
      {"ListTensors", [&] { return client.ListTensors("a").status(); }},
      {"Watch", [&] { return client.Watch("a", "", [](const auto&) { return true; }); }},
      {"Status", [&] { return client.Status().status(); }},
      {"Sessions", [&] { return client.Sessions().status(); }},
      {"Connect",
       [&] {
         return Client::Connect({.directory = directory, .timeout = milliseconds(200)}).status();
       }},
      {"CheckHealth", [&] { return client::CheckHealth(directory, milliseconds(200)).status(); }},
  };
  daemon_.Pause();
  for (const auto& each : calls) {
    absl::Status status;
    EXPECT_LT(TimeOf([&] { status = each.second(); }), seconds(2)) << each.first;
    EXPECT_FALSE(status.ok()) << each.first;
  }
  // Waits for two seconds at most.
  EXPECT_LT(TimeOf([&] { EXPECT_FALSE(lease->Release().ok()); }), seconds(20));
  daemon_.Resume();
  EXPECT_TRUE(client_.List().ok());
}

TEST_F(SlowPeerTest, APathThatIsAFifoIsRefusedAtOnce) {
  const std::string path = daemon_.ModelPath("fifo.safetensors");
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  absl::Status status;
  EXPECT_LT(TimeOf([&] {
              status =
                  client_.Load({.name = "fifo", .path = path}, {.timeout = 10 * kAtOnce}).status();
            }),
            kAtOnce);
  EXPECT_NE(ErrorReason(status), "") << status;
  EXPECT_NE(std::string(status.message()).find(path), std::string::npos) << status;
}

}  // namespace
}  // namespace tenure
