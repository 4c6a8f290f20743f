// A daemon that is killed and started again while clients hold leases. Field case 20.

#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/support/daemon_process.h"

namespace tenure {
namespace {

class RestartTest : public ::testing::Test {
 protected:
  RestartTest() : file_(WriteModel(daemon_, "a", 8)) {}

  Client Connect() {
    return *Client::Connect({.directory = daemon_.directory(), .program = "test"});
  }
  void Restart() {
    daemon_.Kill();
    daemon_.Start();
  }
  static client::ArenaLedger Ledger(const Client& client) {
    return client.Status()->devices.at(0).arenas.at(0);
  }

  DaemonProcess daemon_{DaemonSettings{.lease_ttl = "1s", .heartbeat_interval = "200ms"}};
  const ModelFile file_;
};

TEST_F(RestartTest, AClientGoesOnWithTheNextDaemonByItself) {
  const Client client = Connect();
  const std::string boot_id = client.boot_id();
  const WeightLease lease = LoadAndLease(client, "a", file_);
  Restart();

  // Whichever comes first: the session that ends, or the call.
  const auto models = client.List();
  ASSERT_TRUE(models.ok()) << models.status();
  EXPECT_TRUE(models->empty());
  EXPECT_NE(client.boot_id(), boot_id);

  const WeightLease again = LoadAndLease(client, "a", file_);
  EXPECT_TRUE(again.valid());
  EXPECT_EQ(Difference(again, file_), "");
  EXPECT_TRUE(Eventually([&] { return !lease.valid(); }));
  EXPECT_EQ(lease.lost_reason(), "DAEMON_GONE");
  EXPECT_EQ(Difference(lease, file_), "");  // what was mapped stays readable
}

TEST_F(RestartTest, ALeaseOfTheLastDaemonIsNotThatOfTheNextWithItsId) {
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", file_);
  Restart();
  const WeightLease again = LoadAndLease(client, "a", file_);
  EXPECT_EQ(again.lease_id(), lease.lease_id());
  lease.Release().IgnoreError();
  EXPECT_TRUE(again.valid());
  EXPECT_EQ(client.Get("a")->holders.at(0).lease_count, 1u);
}

TEST_F(RestartTest, WhatASurvivorMapsIsStrandedAndNotFree) {
  const Client client = Connect();
  std::optional<WeightLease> lease = LoadAndLease(client, "a", file_);
  const uint64_t bytes = lease->size_bytes();
  const uint64_t capacity = Ledger(client).capacity;
  Restart();
  EXPECT_TRUE(Eventually([&] { return Ledger(client).stranded == bytes; }));
  EXPECT_EQ(Ledger(client).free, capacity - bytes);

  const WeightLease again = LoadAndLease(client, "a", file_);
  EXPECT_EQ(Difference(*lease, file_), "");
  lease.reset();
  EXPECT_TRUE(Eventually([&] { return Ledger(client).stranded == 0; }));
  EXPECT_EQ(Difference(again, file_), "");
}

TEST_F(RestartTest, AnIdleMappingDoesNotSurvive) {
  const Client client = Connect();
  ASSERT_TRUE(LoadAndLease(client, "a", file_).Release().ok());
  EXPECT_EQ(client.mapped_region_count(), 1u);
  Restart();
  EXPECT_TRUE(client.List().ok());
  EXPECT_TRUE(Eventually([&] { return Ledger(client).stranded == 0; }));
}

TEST_F(RestartTest, PinnedModelsAreOnlineAgainAndOthersAreNot) {
  const ModelFile loose = WriteModel(daemon_, "b", 8);
  {
    const Client client = Connect();
    ASSERT_TRUE(client.Load({.name = "a", .path = file_.path, .pin = true}).ok());
    ASSERT_TRUE(client.Load({.name = "b", .path = loose.path}).ok());
  }
  Restart();
  const Client client = Connect();
  EXPECT_TRUE(Eventually([&] { return client.Status()->readiness.ready; }));
  const auto models = client.List();
  ASSERT_TRUE(models.ok()) << models.status();
  ASSERT_EQ(models->size(), 1u);
  EXPECT_EQ(models->front().name, "a");
  EXPECT_TRUE(models->front().pinned);
  const auto lease = client.Acquire({.name = "a"});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Difference(*lease, file_), "");
}

TEST_F(RestartTest, ModelsOfTheConfigurationComeOnlineAndReadinessTellsHowFar) {
  DaemonProcess daemon(DaemonSettings{.more_yaml =
                                          "models:\n  - {name: a, path: models/a.safetensors}\n"
                                          "  - {name: b, path: models/b.safetensors}\n"});
  const Client client = *Client::Connect({.directory = daemon.directory(), .program = "test"});
  // The files come later than the daemon.
  const client::Readiness waiting = client.Status()->readiness;
  EXPECT_FALSE(waiting.ready);
  EXPECT_EQ(waiting.wanted, 2u);
  const ModelFile a = WriteModel(daemon, "a", 8, 1);
  EXPECT_TRUE(Eventually([&] { return client.Status()->readiness.pending.size() == 1; }));
  EXPECT_FALSE(client.Status()->readiness.ready);
  WriteModel(daemon, "b", 8, 2);
  EXPECT_TRUE(Eventually([&] { return client.Status()->readiness.ready; }));
  const auto lease = client.Acquire({.name = "a"});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(Difference(*lease, a), "");
}

}  // namespace
}  // namespace tenure
