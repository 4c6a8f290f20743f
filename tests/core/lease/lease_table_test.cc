#include "core/lease/lease_table.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

using std::chrono::seconds;

constexpr SessionId kSession(1);
constexpr SessionId kOther(2);
constexpr RegionId kRegion(7);

class LeaseTableTest : public ::testing::Test {
 protected:
  LeaseTableTest() {
    table_.OpenSession(kSession);
    table_.OpenSession(kOther);
  }
  ~LeaseTableTest() override { table_.Validate(); }

  LeaseId Grant(SessionId session = kSession, Duration ttl = seconds(10)) {
    return table_.Grant(session, kRegion, Generation(1), ttl, now_)->id;
  }
  Status Release(SessionId session, LeaseId lease) {
    std::vector<RegionId> touched;
    return table_.Release(session, lease, touched);
  }

  Instant now_ = Instant(std::chrono::hours(1));
  IdSequence<LeaseId> lease_ids_;
  IdSequence<ShareSerial> share_serials_;
  LeaseTable table_{lease_ids_, share_serials_};
};

TEST_F(LeaseTableTest, TheLastExpiryIsThatOfTheLongestLiveLease) {
  EXPECT_EQ(table_.LastExpiry(kRegion, kSession), std::nullopt);
  Grant(kSession, seconds(10));
  const LeaseId longest = Grant(kSession, seconds(30));
  Grant(kOther, seconds(60));
  EXPECT_EQ(table_.LastExpiry(kRegion, kSession), now_ + seconds(30));
  ASSERT_TRUE(Release(kSession, longest).ok());
  EXPECT_EQ(table_.LastExpiry(kRegion, kSession), now_ + seconds(10));
  table_.Expire(now_ + seconds(20));
  EXPECT_EQ(table_.LastExpiry(kRegion, kSession), std::nullopt);
}

TEST_F(LeaseTableTest, AReleasedShareIsIdle) {
  const LeaseId lease = Grant();
  ASSERT_TRUE(table_.OpenShare(kSession, lease).ok());
  ASSERT_TRUE(Release(kSession, lease).ok());
  EXPECT_EQ(table_.UseOf(kRegion), (RegionUse{.leases = 0, .shares = 1, .quarantined_shares = 0}));
}

TEST_F(LeaseTableTest, ASessionHasOneShareOfARegionHoweverManyLeases) {
  const ShareSerial first = table_.OpenShare(kSession, Grant())->serial;
  EXPECT_EQ(table_.OpenShare(kSession, Grant())->serial, first);
  EXPECT_NE(table_.OpenShare(kOther, Grant(kOther))->serial, first);
}

TEST_F(LeaseTableTest, AShareIsThereUntilItEndsAndOnlyForItsSession) {
  const ShareSerial share = table_.OpenShare(kSession, Grant())->serial;
  EXPECT_TRUE(table_.HasShare(kSession, share));
  EXPECT_FALSE(table_.HasShare(kOther, share));
  table_.CloseShare(kSession, share);
  EXPECT_FALSE(table_.HasShare(kSession, share));
}

TEST_F(LeaseTableTest, ExpiryQuarantinesUntilEveryExpiredLeaseIsAnsweredFor) {
  const LeaseId one = Grant();
  const LeaseId two = Grant();
  ASSERT_TRUE(table_.OpenShare(kSession, one).ok());
  EXPECT_EQ(table_.Expire(now_ + seconds(10)).size(), 2U);
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 1U);
  EXPECT_TRUE(HasReason(Release(kSession, one), Reason::kLeaseExpired));
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 1U);
  EXPECT_TRUE(HasReason(Release(kSession, two), Reason::kLeaseExpired));
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 0U);
}

TEST_F(LeaseTableTest, UnmappingAnswersForExpiredLeases) {
  const LeaseId lease = Grant();
  const ShareSerial share = table_.OpenShare(kSession, lease)->serial;
  table_.Expire(now_ + seconds(10));
  EXPECT_EQ(table_.CloseShare(kOther, share), std::nullopt);
  EXPECT_EQ(table_.CloseShare(kSession, share), kRegion);
  EXPECT_EQ(table_.UseOf(kRegion), RegionUse());
  EXPECT_TRUE(HasReason(Release(kSession, lease), Reason::kLeaseNotFound));
}

TEST_F(LeaseTableTest, AnExpiredLeaseIsNeverResurrected) {
  const LeaseId lease = Grant();
  ASSERT_TRUE(table_.OpenShare(kSession, lease).ok());
  table_.Expire(now_ + seconds(10));
  table_.Renew(kSession, now_ + seconds(11));
  EXPECT_TRUE(HasReason(table_.RenewLease(kSession, lease, now_ + seconds(11)).status(),
                        Reason::kLeaseExpired));
  EXPECT_EQ(table_.live_leases(), 0U);
}

TEST_F(LeaseTableTest, ARenewalNeverShortensALease) {
  const LeaseId lease = Grant(kSession, seconds(10));
  table_.Renew(kSession, now_ - seconds(5));
  EXPECT_TRUE(table_.Expire(now_ + seconds(9)).empty());
  EXPECT_TRUE(table_.Find(kSession, lease).ok());
}

TEST_F(LeaseTableTest, OnlyIdleSharesAreRecalledAndOnlyOnce) {
  const LeaseId mine = Grant();
  const LeaseId others = Grant(kOther);
  ASSERT_TRUE(table_.OpenShare(kSession, mine).ok());
  ASSERT_TRUE(table_.OpenShare(kOther, others).ok());
  ASSERT_TRUE(Release(kSession, mine).ok());
  EXPECT_EQ(table_.Recall(kRegion, now_ + seconds(1)).size(), 1U);
  EXPECT_TRUE(table_.Recall(kRegion, now_ + seconds(1)).empty());
}

TEST_F(LeaseTableTest, AnUnansweredRecallQuarantinesUntilTheSessionIsHeardOf) {
  ASSERT_TRUE(table_.OpenShare(kSession, Grant()).ok());
  ASSERT_TRUE(Release(kSession, LeaseId(1)).ok());
  table_.Recall(kRegion, now_ + seconds(1));
  EXPECT_TRUE(table_.EndRecalls(now_).empty());
  EXPECT_EQ(table_.EndRecalls(now_ + seconds(1)), std::vector<RegionId>{kRegion});
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 1U);
  const LeaseId again = Grant();
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 0U);
  ASSERT_TRUE(Release(kSession, again).ok());
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 0U);
}

TEST_F(LeaseTableTest, AClosedSessionIsGrantedNothingAndItsSharesAreInQuarantine) {
  ASSERT_TRUE(table_.OpenShare(kSession, Grant()).ok());
  EXPECT_EQ(table_.CloseSession(kSession), std::vector<RegionId>{kRegion});
  EXPECT_EQ(table_.UseOf(kRegion).quarantined_shares, 1U);
  EXPECT_TRUE(HasReason(table_.Grant(kSession, kRegion, Generation(1), seconds(1), now_).status(),
                        Reason::kSessionUnknown));
  EXPECT_EQ(table_.EndSession(kSession), std::vector<RegionId>{kRegion});
  EXPECT_EQ(table_.UseOf(kRegion), RegionUse());
}

TEST_F(LeaseTableTest, ASessionCannotHoldLeasesWithoutEnd) {
  for (size_t i = 0; i < LeaseTable::kMaxLeasesPerSession; ++i) Grant();
  EXPECT_TRUE(HasReason(table_.Grant(kSession, kRegion, Generation(1), seconds(1), now_).status(),
                        Reason::kLimit));
}

}  // namespace
}  // namespace tenure
