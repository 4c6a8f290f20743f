// A daemon that is killed at random moments and started again at once.

#include <gtest/gtest.h>
#include <iostream>
#include <optional>
#include <random>
#include <string>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/storm.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

#ifdef TENURE_SANITIZED
constexpr uint64_t kKills = 6;
#else
constexpr uint64_t kKills = 50;
#endif
constexpr size_t kClients = 4;

class DaemonKillTest : public ::testing::Test {
 protected:
  const uint64_t seed_ = FromEnvironment("TENURE_STORM_SEED", std::random_device()());
  const uint64_t kills_ = FromEnvironment("TENURE_STORM_DAEMON_KILLS", kKills);
  Tenured daemon_{TenuredSettings{
      .capacity = "128MiB", .segment_size = "2MiB", .retain_ttl = "100ms", .log_level = "error"}};
  const ModelFile file_ = WriteModel(daemon_, "own", {.target = MiB(2)}, 99);
};

// Field case 20.
TEST_F(DaemonKillTest, WhatABootLentStaysReadableAndWhatItPromisedIsWorthNothing) {
  std::cout << "seed " << seed_ << std::endl;
  Storm storm(daemon_, kClients, seed_);
  std::optional<Client> before;
  std::optional<WeightLease> lease;
  uint64_t refused = 0;
  for (uint64_t kill = 0; kill < kills_; ++kill) {
    before = daemon_.Connect();
    lease = LoadAndLease(*before, "own", file_);
    const WireClient old(daemon_.directory());
    storm.AwaitChecks(10);
    storm.Pause(40);
    daemon_.Kill();
    daemon_.Start();

    const Client after = daemon_.Connect();
    ASSERT_NE(after.boot_id(), old.boot_id());
    EXPECT_EQ(Difference(*lease, file_), "");
    // The lease that a new client gets may well have the number of the old one.
    const WeightLease fresh = LoadAndLease(after, "own", file_);
    EXPECT_EQ(Difference(fresh, file_), "");
    for (const uint64_t id : {lease->lease_id(), fresh.lease_id()}) {
      EXPECT_EQ(old.Renew(id), "STALE_INCARNATION");
      EXPECT_EQ(old.RenewAs(after.boot_id(), old.token(), id), "SESSION_UNKNOWN");
      refused += 2;
    }
    // The old client finds the new daemon by itself; its old lease does not.
    const auto again = before->Acquire({.name = "own"});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(before->boot_id(), after.boot_id());
    EXPECT_EQ(Difference(*again, file_), "");
    EXPECT_TRUE(Eventually([&] { return !lease->valid(); }));
    EXPECT_EQ(Difference(*lease, file_), "");
    EXPECT_FALSE(lease->Release().ok());
    EXPECT_TRUE(fresh.valid());
    EXPECT_TRUE(again->valid());
    storm.ExpectAllAlive();
  }
  storm.AwaitChecks(10);
  EXPECT_EQ(storm.counts().wrong_bytes, 0u);
  EXPECT_EQ(storm.counts().stale_accepted, 0u);
  EXPECT_GE(storm.counts().reconnects, kills_);
  std::cout << kills_ << " kills, " << storm.counts().checks << " leases checked, wrong "
            << storm.counts().wrong_bytes << ", reconnects " << storm.counts().reconnects
            << ", stale words refused " << refused << " and taken " << storm.counts().stale_accepted
            << std::endl;
}

}  // namespace
}  // namespace tenure
