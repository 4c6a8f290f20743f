// Sessions, the leases on their pools, buffers, and segments that come.

#include "tests/core/runtime/pool_table_fixture.h"

namespace tenure {
namespace {

using std::chrono::seconds;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Shared = PoolTable::Shared;

// --- Sessions and their Pools.

TEST_F(PoolTableTest, ASessionHasOneLivePoolAndNoneIsShared) {
  Pool& pool = Open();
  EXPECT_EQ(&Open(), &pool);
  EXPECT_NE(Open(kOther).id(), pool.id());
  EXPECT_EQ(*table_.FindLive(kSession, pool.id()), &pool);
  EXPECT_EQ(table_.FindLive(pool.id()), &pool);
  EXPECT_TRUE(HasReason(table_.FindLive(kOther, pool.id()).status(), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(table_.FindLive(kSession, PoolId(99)).status(), Reason::kLeaseNotFound));
  EXPECT_EQ(table_.FindLive(PoolId(99)), nullptr);
}

TEST_F(PoolTableTest, OnlyAnOpenSessionGetsAPool) {
  EXPECT_TRUE(HasReason(table_.Open(SessionId(9), kTtl, now_).status(), Reason::kSessionUnknown));
  EXPECT_TRUE(table_.IsOpen(kSession));
  table_.CloseSession(kSession, now_);
  EXPECT_FALSE(table_.IsOpen(kSession));
  EXPECT_TRUE(HasReason(table_.Open(kSession, kTtl, now_).status(), Reason::kSessionUnknown));
  table_.EndSession(kOther, now_);
  EXPECT_FALSE(table_.IsOpen(kOther));
  EXPECT_TRUE(HasReason(table_.Open(kOther, kTtl, now_).status(), Reason::kSessionUnknown));
}

TEST_F(PoolTableTest, WhatIsSaidOfUnknownSessionsIsIgnored) {
  const SessionId unknown(9);
  table_.CloseSession(unknown, now_);
  table_.EndSession(unknown, now_);
  table_.Renew(unknown, now_);
  EXPECT_FALSE(table_.IsOpen(unknown));
  EXPECT_FALSE(table_.CloseShare(unknown, ShareSerial(1), now_));
  EXPECT_TRUE(HasReason(table_.Release(unknown, BufferId(1), now_), Reason::kLeaseNotFound));
  EXPECT_EQ(table_.UseBy(unknown).shares, 0U);
}

TEST_F(PoolTableTest, AClosedSessionLosesItsPoolButWhatItHasMappedStays) {
  const Buffer mapped = AcquireOne(kSegment);
  AcquireOne(kSegment);
  const PoolId pool = Live();
  const ShareSerial share = Map(mapped.place.begin());
  table_.CloseSession(kSession, now_);
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(table_.FindLive(pool), nullptr);
  EXPECT_TRUE(HasReason(table_.FindLive(kSession, pool).status(), Reason::kLeaseExpired));
  EXPECT_EQ(table_.UseBy(kSession).quarantined_shares, 1U);
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_THAT(table_.Holdings(), IsEmpty());
}

TEST_F(PoolTableTest, DeathReturnsEverything) {
  const Buffer mapped = AcquireOne(kSegment * 2);
  Map(mapped.place.begin());
  Map(mapped.place.begin() + kSegment);
  Grow(1);
  AcquireOne(kSegment, kOther);
  table_.EndSession(kSession, now_);
  EXPECT_EQ(Returned(), 3U);
  ASSERT_THAT(table_.Holdings(), SizeIs(1));
  EXPECT_EQ(table_.Holdings()[0].session, kOther);
}

TEST_F(PoolTableTest, DeathAfterExpiryAndAfterHangingUpReturnsEverythingToo) {
  Map(AcquireOne(kSegment).place.begin());
  now_ += kTtl;
  ASSERT_THAT(table_.Expire(now_), SizeIs(1));
  Map(AcquireOne(kSegment).place.begin());
  table_.CloseSession(kSession, now_);
  EXPECT_EQ(Returned(), 0U);
  EXPECT_THAT(table_.Holdings(), SizeIs(2));
  table_.EndSession(kSession, now_);
  EXPECT_EQ(Returned(), 2U);
}

TEST_F(PoolTableTest, WhatIsBeingExportedAtDeathIsReturnedWhenTheExportEnds) {
  const Buffer buffer = AcquireOne(kSegment * 2);
  const Shared pending = Begin({buffer.place.begin()})->at(0);
  table_.EndSession(kSession, now_);
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(pending.segment->size(), kSegment);
  EXPECT_TRUE(HasReason(table_.MaySend(pending), Reason::kLeaseExpired));
  EXPECT_TRUE(
      HasReason(table_.FindLive(kSession, pending.id.pool).status(), Reason::kLeaseExpired));
  table_.EndSending(pending, false);
  EXPECT_EQ(Returned(), 0U);
  table_.EndExport(pending);
  EXPECT_EQ(Returned(), 1U);
  EXPECT_THAT(table_.Holdings(), IsEmpty());
}

// --- The lease.

TEST_F(PoolTableTest, ALeaseEndsWithItsTtlAndNotBefore) {
  const PoolId pool = Live();
  EXPECT_THAT(table_.Expire(now_ + kTtl - Duration(1)), IsEmpty());
  EXPECT_NE(table_.FindLive(pool), nullptr);
  const auto expired = table_.Expire(now_ + kTtl);
  ASSERT_THAT(expired, SizeIs(1));
  EXPECT_EQ(expired[0].session, kSession);
  EXPECT_EQ(expired[0].pool, pool);
  EXPECT_EQ(table_.FindLive(pool), nullptr);
  EXPECT_THAT(table_.Expire(now_ + kTtl * 2), IsEmpty());
  EXPECT_TRUE(table_.IsOpen(kSession));
}

TEST_F(PoolTableTest, ALeaseForEverNeverEnds) {
  ASSERT_TRUE(table_.Open(kSession, kForever, now_).ok());
  EXPECT_THAT(table_.Expire(now_ + std::chrono::hours(100'000)), IsEmpty());
}

TEST_F(PoolTableTest, RenewalCountsFromNowAndNeverShortens) {
  Open();
  table_.Renew(kSession, now_ + seconds(5));
  table_.Renew(kOther, now_ + seconds(5));
  EXPECT_THAT(table_.Expire(now_ + seconds(14)), IsEmpty());
  table_.Renew(kSession, now_ + seconds(1));
  EXPECT_THAT(table_.Expire(now_ + seconds(14)), IsEmpty());
  // A shorter one asked for beside it takes nothing from the longer one.
  ASSERT_TRUE(table_.Open(kSession, seconds(1), now_ + seconds(6)).ok());
  table_.Renew(kSession, now_ + seconds(7));
  EXPECT_THAT(table_.Expire(now_ + seconds(14)), IsEmpty());
  EXPECT_THAT(table_.Expire(now_ + seconds(15)), SizeIs(1));
  table_.Renew(kSession, now_ + seconds(15));
  EXPECT_EQ(table_.UseBy(kSession).pools, 0U);
}

TEST_F(PoolTableTest, AfterExpiryOnlyWhatWasNeverSharedIsReturned) {
  const Buffer buffer = AcquireOne(kSegment * 3);
  const ShareSerial share = Map(buffer.place.begin() + kSegment);
  now_ += kTtl;
  ASSERT_THAT(table_.Expire(now_), SizeIs(1));
  EXPECT_EQ(Returned(), 2U);
  now_ += std::chrono::hours(1);
  EXPECT_THAT(table_.Expire(now_), IsEmpty());
  EXPECT_EQ(table_.EndRecalls(now_), 0U);
  EXPECT_EQ(Returned(), 0U);
  ASSERT_THAT(table_.Holdings(), SizeIs(1));
  EXPECT_FALSE(table_.Holdings()[0].live);
  EXPECT_EQ(table_.Holdings()[0].shares, 1U);
  EXPECT_EQ(table_.UseBy(kSession).quarantined_shares, 1U);
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  EXPECT_EQ(Returned(), 1U);
}

TEST_F(PoolTableTest, WhatIsAcquiredAfterExpiryLiesInANewPool) {
  const Buffer before = AcquireOne(kSegment);
  const PoolId old = Live();
  const ShareSerial share = Map(before.place.begin());
  now_ += kTtl;
  table_.Expire(now_);
  const Buffer after = AcquireOne(kSegment);
  EXPECT_NE(Live(), old);
  EXPECT_NE(Map(after.place.begin()), share);
  EXPECT_EQ(table_.UseBy(kSession).pools, 1U);
  EXPECT_EQ(table_.UseBy(kSession).shares, 2U);
  EXPECT_EQ(table_.UseBy(kSession).quarantined_shares, 1U);
  EXPECT_TRUE(HasReason(table_.FindLive(kSession, old).status(), Reason::kLeaseExpired));
  EXPECT_TRUE(HasReason(Release(before), Reason::kLeaseExpired));
  EXPECT_TRUE(Release(after).ok());
}

// --- Buffers.

TEST_F(PoolTableTest, ABufferIsReleasedOnceAndByItsSession) {
  const Buffer buffer = AcquireOne(KiB(1));
  AcquireOne(KiB(1), kOther);
  EXPECT_TRUE(HasReason(Release(buffer, kOther), Reason::kLeaseNotFound));
  EXPECT_TRUE(Release(buffer).ok());
  EXPECT_TRUE(HasReason(Release(buffer), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(table_.Release(kSession, BufferId(), now_), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(table_.Release(kSession, BufferId(1'000), now_), Reason::kLeaseNotFound));
}

TEST_F(PoolTableTest, AnExpiredBufferIsAnsweredForOnce) {
  const Buffer buffer = AcquireOne(KiB(1));
  Map(buffer.place.begin());
  now_ += kTtl;
  table_.Expire(now_);
  EXPECT_TRUE(HasReason(Release(buffer, kOther), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(Release(buffer), Reason::kLeaseExpired));
  EXPECT_TRUE(HasReason(Release(buffer), Reason::kLeaseNotFound));
}

TEST_F(PoolTableTest, ASessionCannotHoldBuffersWithoutEnd) {
  const std::vector<BufferSpec> hundred(100, {.size = Bytes(1)});
  PoolTable table({.segment_size = MiB(8), .kind_bytes = MiB(64)},
                  {.pools = pools_, .buffers = buffers_, .shares = shares_});
  table.OpenSession(kSession);
  Pool& pool = **table.Open(kSession, kTtl, now_);
  for (uint64_t i = 0; i < 4; ++i) {
    pool.Expect(MiB(8) * i);
    pool.Fill(MiB(8) * i, *device_.CreateSegment(SegmentUse::kRuntime, MiB(8)), now_);
  }
  for (size_t i = 0; i < PoolTable::kMaxBuffersPerSession; i += 100) {
    ASSERT_TRUE(table.AddBuffers(pool, hundred, pool.Place(hundred).blocks, now_).ok());
  }
  const Bytes used = pool.bytes().blocks;
  EXPECT_TRUE(HasReason(table.AddBuffers(pool, hundred, pool.Place(hundred).blocks, now_).status(),
                        Reason::kLimit));
  // What was placed for them is free again.
  table.Validate();
  EXPECT_EQ(pool.bytes().blocks, used);
  // What expired and was not answered for counts as well.
  const Shared shared = table.BeginExport(kSession, pool.id(), std::vector<Bytes>{Bytes(0)})->at(0);
  table.EndExport(shared);
  table.EndSending(shared, true);
  table.Expire(now_ + kTtl);
  Pool& next = **table.Open(kSession, kTtl, now_ + kTtl);
  next.Expect(Bytes(0));
  next.Fill(Bytes(0), *device_.CreateSegment(SegmentUse::kRuntime, MiB(8)), now_);
  const std::vector<BufferSpec> one = {{.size = Bytes(1)}};
  EXPECT_TRUE(HasReason(table.AddBuffers(next, one, next.Place(one).blocks, now_).status(),
                        Reason::kLimit));
  EXPECT_TRUE(HasReason(table.Release(kSession, BufferId(1), now_), Reason::kLeaseExpired));
  EXPECT_TRUE(table.AddBuffers(next, one, next.Place(one).blocks, now_).ok());
  table.Validate();
}

// --- Segments that come.

TEST_F(PoolTableTest, ASegmentThatComesForAPoolThatIsOverIsReturnedAtOnce) {
  Pool& pool = Open();
  const PoolId id = pool.id();
  pool.Expect(Bytes(0));
  pool.Expect(kSegment);
  pool.Expect(kSegment * 2);
  table_.Expire(now_ + kTtl);
  EXPECT_EQ(Returned(), 0U);
  table_.Fill({id, Bytes(0)}, MakeSegment(), now_);
  EXPECT_EQ(Returned(), 1U);
  table_.EndSession(kSession, now_);
  table_.Fill({id, kSegment}, MakeSegment(), now_);
  EXPECT_EQ(Returned(), 1U);
  EXPECT_THAT(table_.Holdings(), SizeIs(1));
  table_.Abandon({id, kSegment * 2});
  table_.Validate();
  EXPECT_THAT(table_.Holdings(), IsEmpty());
}

TEST_F(PoolTableTest, ASegmentThatDoesNotComeLeavesALivePoolAsItWas) {
  Pool& pool = Open();
  pool.Expect(Bytes(0));
  table_.Abandon({pool.id(), Bytes(0)});
  table_.Validate();
  EXPECT_EQ(table_.FindLive(pool.id()), &pool);
}

// --- Views.

TEST_F(PoolTableTest, HoldingsTellOfEveryPool) {
  Acquire({{.size = KiB(3)}, {.size = Bytes(100)}});
  Map(Bytes(0));
  Grow(2, kOther);
  const std::vector<PoolTable::Holding> holdings = table_.Holdings();
  ASSERT_THAT(holdings, SizeIs(2));
  EXPECT_EQ(holdings[0].session, kSession);
  EXPECT_EQ(holdings[0].bytes.requested, KiB(3) + Bytes(100));
  EXPECT_EQ(holdings[0].buffers, 2U);
  EXPECT_EQ(holdings[0].shares, 1U);
  EXPECT_TRUE(holdings[0].live);
  EXPECT_EQ(holdings[1].session, kOther);
  EXPECT_EQ(holdings[1].bytes.blocks, kSegment * 2);
  EXPECT_EQ(holdings[1].buffers, 0U);
}

TEST_F(PoolTableTest, TheLargestBufferIsThatOfTheBestPoolOrOfANewOne) {
  EXPECT_EQ(table_.LargestFree(0), Bytes(0));
  EXPECT_EQ(table_.LargestFree(3), kSegment * 3);
  EXPECT_EQ(table_.LargestFree(UINT64_MAX), kKind);
  AcquireOne(KiB(24));
  EXPECT_EQ(table_.LargestFree(0), KiB(40));
  EXPECT_EQ(table_.LargestFree(3), kSegment * 3 + KiB(40));
  table_.CloseSession(kSession, now_);
  EXPECT_EQ(table_.LargestFree(0), Bytes(0));
}

using PoolTableDeathTest = PoolTableTest;

TEST_F(PoolTableDeathTest, OnlyWhatIsUnusedIsRecalled) {
  const Buffer buffer = AcquireOne(kSegment);
  EXPECT_DEATH((void)table_.Recall({Live(), buffer.place.begin()}, now_, now_), "CHECK failed");
}

TEST_F(PoolTableDeathTest, EveryBufferHasABlock) {
  AcquireOne(kSegment);
  const std::vector<BufferSpec> two(2, {.size = KiB(1)});
  EXPECT_DEATH((void)table_.AddBuffers(Open(), two, {}, now_), "CHECK failed");
}

TEST_F(PoolTableDeathTest, AnExportEndsOnce) {
  const Buffer buffer = AcquireOne(kSegment);
  const Shared shared = Begin({buffer.place.begin()})->at(0);
  table_.EndExport(shared);
  EXPECT_DEATH(table_.EndExport(shared), "CHECK failed");
  const Shared other = Begin({buffer.place.begin()})->at(0);
  table_.EndExport(other);
  table_.EndSending(shared, true);
  table_.EndSending(other, true);
  EXPECT_DEATH(table_.EndSending(other, true), "CHECK failed");
}

}  // namespace
}  // namespace tenure
