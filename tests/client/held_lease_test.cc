#include "client/cpp/held_lease.h"

#include <gtest/gtest.h>
#include <memory>

namespace tenure::client {
namespace {

using std::chrono::seconds;

const Instant kStart = Instant(std::chrono::hours(1));

std::shared_ptr<HeldLease> Lease(uint64_t id, Duration ttl, Instant granted_at = kStart) {
  return std::make_shared<HeldLease>(id, LeasedDevice{.name = "host:0"}, 1, 4096, ttl, granted_at);
}

TEST(HeldLeasesTest, ALeaseIsOverdueWithoutADaemonThatRenewsIt) {
  HeldLeases leases;
  const auto lease = Lease(1, seconds(10));
  leases.Add(lease);
  leases.LoseOverdue(kStart + seconds(9), kStart, "HEARTBEAT_MISSED");
  EXPECT_FALSE(lease->lost());
  leases.LoseOverdue(kStart + seconds(10), kStart, "HEARTBEAT_MISSED");
  ASSERT_TRUE(lease->lost());
  EXPECT_EQ(lease->lost_reason(), "HEARTBEAT_MISSED");
}

TEST(HeldLeasesTest, AHeartbeatRenewsEveryLeaseByItsOwnTime) {
  HeldLeases leases;
  const auto brief = Lease(1, seconds(2));
  const auto lasting = Lease(2, seconds(10));
  leases.Add(brief);
  leases.Add(lasting);
  leases.LoseOverdue(kStart + seconds(6), kStart + seconds(5), "HEARTBEAT_MISSED");
  EXPECT_FALSE(brief->lost());
  leases.LoseOverdue(kStart + seconds(8), kStart + seconds(5), "HEARTBEAT_MISSED");
  EXPECT_TRUE(brief->lost());
  EXPECT_FALSE(lasting->lost());
}

TEST(HeldLeasesTest, ALeaseGrantedAfterTheLastHeartbeatCountsFromItsGrant) {
  HeldLeases leases;
  const auto lease = Lease(1, seconds(2), kStart + seconds(100));
  leases.Add(lease);
  leases.LoseOverdue(kStart + seconds(101), kStart, "HEARTBEAT_MISSED");
  EXPECT_FALSE(lease->lost());
}

TEST(HeldLeasesTest, ALostLeaseKeepsItsFirstReason) {
  HeldLeases leases;
  const auto lease = Lease(1, seconds(2));
  leases.Add(lease);
  leases.Lose(1, "LEASE_EXPIRED");
  leases.LoseAll("DAEMON_GONE");
  EXPECT_EQ(lease->lost_reason(), "LEASE_EXPIRED");
}

TEST(HeldLeasesTest, ALossToldBeforeTheReplyThatGrantedIsNotForgotten) {
  HeldLeases leases;
  leases.BeginGrant();
  leases.Lose(1, "LEASE_EXPIRED");
  const auto lease = Lease(1, seconds(2));
  leases.Add(lease);
  leases.EndGrant();
  EXPECT_TRUE(lease->lost());
}

TEST(HeldLeasesTest, ALossOfALeaseThatNobodyWaitsForIsForgotten) {
  HeldLeases leases;
  leases.Lose(1, "LEASE_EXPIRED");
  leases.BeginGrant();
  leases.Lose(2, "LEASE_EXPIRED");
  leases.EndGrant();
  leases.BeginGrant();
  for (const uint64_t id : {1u, 2u}) {
    const auto lease = Lease(id, seconds(2));
    leases.Add(lease);
    EXPECT_FALSE(lease->lost());
  }
}

TEST(HeldLeasesTest, TheShortestTimeToLiveFollowsTheLeases) {
  HeldLeases leases;
  EXPECT_FALSE(leases.shortest_ttl().has_value());
  leases.Add(Lease(1, seconds(10)));
  leases.Add(Lease(2, seconds(2)));
  leases.Add(Lease(3, seconds(2)));
  EXPECT_EQ(leases.shortest_ttl(), seconds(2));
  leases.Remove(2);
  EXPECT_EQ(leases.shortest_ttl(), seconds(2));
  leases.Remove(3);
  EXPECT_EQ(leases.shortest_ttl(), seconds(10));
  leases.Remove(3);
  EXPECT_EQ(leases.shortest_ttl(), seconds(10));
}

}  // namespace
}  // namespace tenure::client
