// Leases that end without the client's doing: heartbeats, silence, a daemon that dies.

#include <chrono>
#include <gtest/gtest.h>
#include <string>
#include <thread>

#include "core/base/clock.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/support/daemon_process.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class ClientLossTest : public ::testing::Test {
 protected:
  ClientLossTest() : file_(WriteModel(daemon_, "a", 8)) {}

  Client Connect() {
    return *Client::Connect({.directory = daemon_.directory(), .program = "test"});
  }

  DaemonProcess daemon_{DaemonSettings{.lease_ttl = "1s", .heartbeat_interval = "200ms"}};
  const ModelFile file_;
};

// Field case 51.
TEST_F(ClientLossTest, AnIdleClientKeepsItsLease) {
  const Client client = Connect();
  const WeightLease lease = LoadAndLease(client, "a", file_);
  std::this_thread::sleep_for(seconds(3));
  EXPECT_TRUE(lease.valid()) << lease.lost_reason();
  EXPECT_EQ(Difference(lease, file_), "");
}

TEST_F(ClientLossTest, ALeaseBrieferThanTheHeartbeatsOfTheDaemonIsKeptToo) {
  const DaemonProcess slow(DaemonSettings{.lease_ttl = "30s", .heartbeat_interval = "5s"});
  const ModelFile file = WriteModel(slow, "a", 8);
  const Client client = *Client::Connect({.directory = slow.directory(), .program = "test"});
  ASSERT_TRUE(client.Load({.name = "a", .path = file.path}).ok());
  const auto lease = client.Acquire({.name = "a", .ttl = milliseconds(500)});
  ASSERT_TRUE(lease.ok()) << lease.status();
  std::this_thread::sleep_for(seconds(2));
  EXPECT_TRUE(lease->valid()) << lease->lost_reason();
}

TEST_F(ClientLossTest, ADaemonThatStandsStillLosesLeasesAndCallsEndByTheirDeadline) {
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", file_);
  daemon_.Pause();
  EXPECT_TRUE(Eventually([&] { return !lease.valid(); }));
  EXPECT_EQ(lease.lost_reason(), "HEARTBEAT_MISSED");
  const auto start = SteadyClock().Now();
  EXPECT_EQ(client.List({.timeout = milliseconds(200)}).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  EXPECT_LT(SteadyClock().Now() - start, seconds(10));

  daemon_.Resume();
  EXPECT_FALSE(lease.valid());
  lease.Release().IgnoreError();
  const auto again = client.Acquire({.name = "a"});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->valid());
  EXPECT_EQ(Difference(*again, file_), "");
}

TEST_F(ClientLossTest, AKilledDaemonLosesEveryLeaseAndLeavesTheMemoryReadable) {
  const Client client = Connect();
  const WeightLease lease = LoadAndLease(client, "a", file_);
  daemon_.Kill();
  EXPECT_TRUE(Eventually([&] { return !lease.valid(); }));
  EXPECT_EQ(lease.lost_reason(), "DAEMON_GONE");
  EXPECT_EQ(Difference(lease, file_), "");

  const auto start = SteadyClock().Now();
  const auto models = client.List();
  EXPECT_EQ(models.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(client::IsUnreachable(models.status()));
  EXPECT_EQ(ErrorReason(client.Acquire({.name = "a"}).status()), "DAEMON_UNREACHABLE");
  EXPECT_LT(SteadyClock().Now() - start, seconds(5));
}

TEST_F(ClientLossTest, ConnectingToADaemonThatStandsStillEndsInTime) {
  daemon_.Pause();
  const auto client = Client::Connect(
      {.directory = daemon_.directory(), .program = "test", .timeout = milliseconds(300)});
  daemon_.Resume();
  EXPECT_EQ(ErrorReason(client.status()), "DAEMON_UNREACHABLE") << client.status();
}

TEST_F(ClientLossTest, AClientOfADaemonThatStandsStillClosesInTime) {
  std::optional<Client> client = Connect();
  std::optional<WeightLease> lease = LoadAndLease(*client, "a", file_);
  daemon_.Pause();
  const auto start = SteadyClock().Now();
  lease.reset();
  client.reset();
  EXPECT_LT(SteadyClock().Now() - start, seconds(10));
  daemon_.Resume();
}

}  // namespace
}  // namespace tenure
