#include "core/runtime/pool_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/small_device.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Shared = PoolTable::Shared;

constexpr SessionId kSession(1);
constexpr SessionId kOther(2);
constexpr Bytes kSegment = KiB(64);
constexpr Bytes kKind = kSegment * 16;
constexpr Duration kTtl = seconds(10);

class PoolTableTest : public ::testing::Test {
 protected:
  PoolTableTest() {
    table_.OpenSession(kSession);
    table_.OpenSession(kOther);
  }
  ~PoolTableTest() override { table_.Validate(); }

  Pool& Open(SessionId session = kSession) { return **table_.Open(session, kTtl, now_); }
  Segment MakeSegment() { return *device_.CreateSegment(SegmentUse::kRuntime, kSegment); }
  void Bring(Pool& pool, const std::vector<Bytes>& offsets) {
    for (const Bytes offset : offsets) {
      pool.Expect(offset);
      table_.Fill({pool.id(), offset}, MakeSegment(), now_);
    }
  }
  std::vector<Buffer> Acquire(const std::vector<BufferSpec>& specs, SessionId session = kSession) {
    Pool& pool = Open(session);
    Pool::Placement placement = pool.Place(specs);
    Bring(pool, placement.missing);
    if (!placement.placed()) placement = pool.Place(specs);
    std::vector<Buffer> buffers = *table_.AddBuffers(pool, specs, placement.blocks);
    table_.Validate();
    return buffers;
  }
  Buffer AcquireOne(Bytes size, SessionId session = kSession) {
    return Acquire({{.size = size}}, session).at(0);
  }
  std::vector<Bytes> Grow(uint64_t segments, SessionId session = kSession) {
    Pool& pool = Open(session);
    Pool::Placement placement = pool.PlaceSegments(BufferKind::kActivation, kSegment * segments);
    Bring(pool, placement.missing);
    if (!placement.placed()) {
      placement = pool.PlaceSegments(BufferKind::kActivation, kSegment * segments);
    }
    return pool.Grant(BufferKind::kActivation, placement.blocks.at(0));
  }
  PoolId Live(SessionId session = kSession) { return Open(session).id(); }
  StatusOr<std::vector<Shared>> Begin(const std::vector<Bytes>& offsets,
                                      SessionId session = kSession) {
    return table_.BeginExport(session, Live(session), offsets);
  }
  // Its Session has the Segment mapped after that.
  ShareSerial Map(Bytes offset, SessionId session = kSession) {
    const Shared shared = Begin({offset}, session)->at(0);
    table_.EndExport(shared);
    EXPECT_TRUE(table_.MaySend(shared).ok());
    table_.EndSending(shared, true);
    table_.Validate();
    return shared.share;
  }
  size_t Returned() {
    table_.Validate();
    return table_.TakeReturned().size();
  }
  Status Release(const Buffer& buffer, SessionId session = kSession) {
    const Status status = table_.Release(session, buffer.id, now_);
    table_.Validate();
    return status;
  }
  // Uses the Segment at the begin of the Pool no more.
  PoolSegmentId UnusedMapped() {
    const Buffer buffer = AcquireOne(kSegment);
    EXPECT_TRUE(Release(buffer).ok());
    Map(buffer.place.begin());
    return {Live(), buffer.place.begin()};
  }

  Instant now_ = Instant(std::chrono::hours(1));
  SmallDevice device_{"host:0", GiB(1)};
  IdSequence<PoolId> pools_;
  IdSequence<BufferId> buffers_;
  IdSequence<ShareSerial> shares_;
  PoolTable table_{{.segment_size = kSegment, .kind_bytes = kKind},
                   {.pools = pools_, .buffers = buffers_, .shares = shares_}};
};

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
    ASSERT_TRUE(table.AddBuffers(pool, hundred, pool.Place(hundred).blocks).ok());
  }
  const Bytes used = pool.bytes().blocks;
  EXPECT_TRUE(HasReason(table.AddBuffers(pool, hundred, pool.Place(hundred).blocks).status(),
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
  EXPECT_TRUE(
      HasReason(table.AddBuffers(next, one, next.Place(one).blocks).status(), Reason::kLimit));
  EXPECT_TRUE(HasReason(table.Release(kSession, BufferId(1), now_), Reason::kLeaseExpired));
  EXPECT_TRUE(table.AddBuffers(next, one, next.Place(one).blocks).ok());
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

// --- Shares.

TEST_F(PoolTableTest, OnlySegmentsThatAreThereAreExported) {
  const Buffer buffer = AcquireOne(kSegment);
  const std::vector<Bytes> here = {buffer.place.begin()};
  const PoolId pool = Live();
  EXPECT_TRUE(HasReason(table_.BeginExport(kOther, pool, here).status(), Reason::kLeaseNotFound));
  EXPECT_TRUE(
      HasReason(table_.BeginExport(kSession, PoolId(9), here).status(), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(Begin({here[0], kSegment * 5}).status(), Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(Begin({here[0] + Bytes(1)}).status(), Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(Begin({Bytes(UINT64_MAX)}).status(), Reason::kInvalidRequest));
  Open().Expect(kSegment);
  EXPECT_TRUE(HasReason(Begin({kSegment}).status(), Reason::kInvalidRequest));
  // None of them has begun anything.
  EXPECT_EQ(table_.UseBy(kSession).shares, 0U);
  EXPECT_THAT(Begin({}).value(), IsEmpty());
  Map(here[0]);
  now_ += kTtl;
  table_.Expire(now_);
  EXPECT_TRUE(HasReason(table_.BeginExport(kSession, pool, here).status(), Reason::kLeaseExpired));
}

TEST_F(PoolTableTest, ASegmentIsExportedUnderOneSerialUntilItsShareEnds) {
  const Buffer buffer = AcquireOne(kSegment);
  const ShareSerial share = Map(buffer.place.begin());
  EXPECT_EQ(Map(buffer.place.begin()), share);
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  // The Buffer is still there, and may be mapped again.
  EXPECT_EQ(Returned(), 0U);
  EXPECT_NE(Map(buffer.place.begin()), share);
  EXPECT_FALSE(table_.CloseShare(kSession, share, now_));
}

TEST_F(PoolTableTest, NobodyEndsTheShareOfAnother) {
  const Buffer buffer = AcquireOne(kSegment);
  const ShareSerial share = Map(buffer.place.begin());
  ASSERT_TRUE(Release(buffer).ok());
  EXPECT_FALSE(table_.CloseShare(kOther, share, now_));
  EXPECT_FALSE(table_.CloseShare(kSession, ShareSerial(), now_));
  EXPECT_FALSE(table_.CloseShare(kSession, ShareSerial(99), now_));
  EXPECT_EQ(Returned(), 0U);
  EXPECT_EQ(table_.UseBy(kSession).shares, 1U);
}

TEST_F(PoolTableTest, UnmappingGivesBackWhatIsUnusedOrWasGranted) {
  const Buffer buffer = AcquireOne(kSegment);
  const ShareSerial share = Map(buffer.place.begin());
  const Bytes granted = Grow(1).at(0);
  const ShareSerial granted_share = Map(granted);
  ASSERT_TRUE(Release(buffer).ok());
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_TRUE(table_.CloseShare(kSession, granted_share, now_));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(Open().bytes().blocks, Bytes(0));
}

TEST_F(PoolTableTest, AShareOfWhichNothingWasSentEndsWithItsLastSending) {
  const Buffer buffer = AcquireOne(kSegment);
  const Shared first = Begin({buffer.place.begin()})->at(0);
  const Shared second = Begin({buffer.place.begin()})->at(0);
  EXPECT_EQ(first.share, second.share);
  table_.EndExport(first);
  table_.EndExport(second);
  table_.EndSending(first, false);
  table_.Validate();
  EXPECT_EQ(table_.UseBy(kSession).shares, 1U);
  EXPECT_TRUE(table_.MaySend(second).ok());
  table_.EndSending(second, false);
  table_.Validate();
  EXPECT_EQ(table_.UseBy(kSession).shares, 0U);
  EXPECT_TRUE(HasReason(table_.MaySend(second), Reason::kCancelled));
}

TEST_F(PoolTableTest, AShareOfWhichOnceSomethingWasSentOutlivesSendingsThatFail) {
  const Buffer buffer = AcquireOne(kSegment);
  const Shared first = Begin({buffer.place.begin()})->at(0);
  const Shared second = Begin({buffer.place.begin()})->at(0);
  table_.EndExport(first);
  table_.EndExport(second);
  table_.EndSending(second, true);
  table_.EndSending(first, false);
  now_ += kTtl;
  table_.Expire(now_);
  EXPECT_EQ(Returned(), 0U);
  EXPECT_EQ(table_.UseBy(kSession).shares, 1U);
}

TEST_F(PoolTableTest, ANewShareOfASegmentKnowsNothingOfTheOneBefore) {
  const Buffer buffer = AcquireOne(kSegment);
  const ShareSerial before = Map(buffer.place.begin());
  const Shared late = Begin({buffer.place.begin()})->at(0);
  EXPECT_TRUE(table_.CloseShare(kSession, before, now_));
  const Shared next = Begin({buffer.place.begin()})->at(0);
  table_.EndExport(late);
  table_.EndExport(next);
  table_.EndSending(next, false);
  EXPECT_EQ(table_.UseBy(kSession).shares, 0U);
  table_.EndSending(late, false);
  table_.Validate();
}

TEST_F(PoolTableTest, WhatWasNeverSentIsReturnedOnceExportAndSendingHaveEnded) {
  for (const bool export_first : {true, false}) {
    const Buffer buffer = AcquireOne(kSegment);
    const Shared shared = Begin({buffer.place.begin()})->at(0);
    now_ += kTtl;
    table_.Expire(now_);
    EXPECT_TRUE(HasReason(table_.MaySend(shared), Reason::kLeaseExpired));
    EXPECT_EQ(Returned(), 0U);
    if (export_first) {
      table_.EndExport(shared);
    } else {
      table_.EndSending(shared, false);
    }
    EXPECT_EQ(Returned(), 0U);
    if (export_first) {
      table_.EndSending(shared, false);
    } else {
      table_.EndExport(shared);
    }
    EXPECT_EQ(Returned(), 1U);
  }
}

TEST_F(PoolTableTest, AnExportUnderASerialThatEndedIsNotSentAndChangesNothing) {
  const Buffer buffer = AcquireOne(kSegment);
  const Shared old = Begin({buffer.place.begin()})->at(0);
  EXPECT_TRUE(table_.CloseShare(kSession, old.share, now_));
  EXPECT_TRUE(HasReason(table_.MaySend(old), Reason::kCancelled));
  const ShareSerial next = Map(buffer.place.begin());
  EXPECT_NE(next, old.share);
  table_.EndSending(old, false);
  table_.EndExport(old);
  table_.Validate();
  EXPECT_EQ(table_.UseBy(kSession).shares, 1U);
  EXPECT_TRUE(table_.CloseShare(kSession, next, now_));
}

TEST_F(PoolTableTest, WhatIsGivenBackWhileItIsExportedIsReturnedAfterwards) {
  const Buffer buffer = AcquireOne(kSegment);
  ASSERT_TRUE(Release(buffer).ok());
  const Shared shared = Begin({buffer.place.begin()})->at(0);
  EXPECT_TRUE(table_.CloseShare(kSession, shared.share, now_));
  EXPECT_EQ(Returned(), 0U);
  EXPECT_TRUE(HasReason(Begin({buffer.place.begin()}).status(), Reason::kInvalidRequest));
  table_.EndExport(shared);
  EXPECT_EQ(Returned(), 1U);
  table_.EndSending(shared, false);
  table_.Validate();
}

// --- What is wanted back.

TEST_F(PoolTableTest, UnusedSegmentsAreToldUnmappedOnesFirstAndThenTheOldest) {
  const Buffer one = AcquireOne(kSegment);
  const Buffer two = AcquireOne(kSegment, kOther);
  const Buffer three = AcquireOne(kSegment);
  const Buffer four = AcquireOne(kSegment);
  AcquireOne(kSegment);
  EXPECT_THAT(table_.Unused(), IsEmpty());
  Map(one.place.begin());
  for (const Buffer* buffer : {&one, &four, &three}) {
    now_ += milliseconds(1);
    ASSERT_TRUE(Release(*buffer).ok());
  }
  now_ += milliseconds(1);
  ASSERT_TRUE(Release(two, kOther).ok());
  const PoolId mine = Live();
  const PoolSegmentId others{Live(kOther), two.place.begin()};
  EXPECT_THAT(table_.Unused(), ElementsAre(PoolSegmentId{mine, four.place.begin()},
                                           PoolSegmentId{mine, three.place.begin()}, others,
                                           PoolSegmentId{mine, one.place.begin()}));
  // What is being exported, granted or coming is not among them, nor what is wanted back already.
  const Shared shared = Begin({four.place.begin()})->at(0);
  EXPECT_EQ(table_.Recall(others, now_, now_), std::nullopt);
  Open().Expect(kSegment * 9);
  EXPECT_THAT(table_.Unused(), SizeIs(2));
  table_.EndExport(shared);
  table_.EndSending(shared, false);
  EXPECT_THAT(table_.Unused(), SizeIs(3));
  table_.CloseSession(kSession, now_);
  EXPECT_THAT(table_.Unused(), IsEmpty());
}

// Its Session could answer before it has the fds, and map them afterwards.
TEST_F(PoolTableTest, WhatIsOnItsWayToItsSessionIsNotAskedFor) {
  const Buffer buffer = AcquireOne(kSegment);
  const Shared shared = Begin({buffer.place.begin()})->at(0);
  ASSERT_TRUE(Release(buffer).ok());
  EXPECT_THAT(table_.Unused(), IsEmpty());
  table_.EndExport(shared);
  EXPECT_THAT(table_.Unused(), IsEmpty());
  table_.EndSending(shared, true);
  EXPECT_THAT(table_.Unused(), SizeIs(1));
}

TEST_F(PoolTableTest, WhatNobodyHasMappedComesBackAtOnce) {
  ASSERT_TRUE(Release(AcquireOne(kSegment)).ok());
  EXPECT_EQ(table_.Recall({Live(), Bytes(0)}, now_ + seconds(1), now_), std::nullopt);
  EXPECT_EQ(table_.recalled(), Bytes(0));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_NE(table_.FindLive(Live()), nullptr);
}

TEST_F(PoolTableTest, AnAnsweredRecallReturnsTheSegment) {
  const PoolSegmentId id = UnusedMapped();
  const std::optional<ShareSerial> share = table_.Recall(id, now_ + seconds(1), now_);
  ASSERT_TRUE(share.has_value());
  EXPECT_EQ(table_.recalled(), kSegment);
  EXPECT_EQ(Returned(), 0U);
  // Nothing is handed out of it any more.
  EXPECT_THAT(Open().Place(std::vector<BufferSpec>{{.size = KiB(1)}}).missing, SizeIs(1));
  EXPECT_TRUE(HasReason(Begin({id.offset}).status(), Reason::kInvalidRequest));
  EXPECT_TRUE(table_.CloseShare(kSession, *share, now_));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(table_.recalled(), Bytes(0));
  EXPECT_EQ(table_.EndRecalls(now_ + seconds(1)), 0U);
}

TEST_F(PoolTableTest, AnUnansweredRecallIsInQuarantineUntilItIsAnswered) {
  const PoolSegmentId id = UnusedMapped();
  const ShareSerial share = *table_.Recall(id, now_ + seconds(1), now_);
  EXPECT_EQ(table_.EndRecalls(now_ + seconds(1) - Duration(1)), 0U);
  EXPECT_EQ(table_.UseBy(kSession).quarantined_shares, 0U);
  EXPECT_EQ(table_.EndRecalls(now_ + seconds(1)), 1U);
  EXPECT_EQ(table_.EndRecalls(now_ + seconds(2)), 0U);
  EXPECT_EQ(Returned(), 0U);
  EXPECT_EQ(table_.UseBy(kSession).quarantined_shares, 1U);
  EXPECT_EQ(Open().bytes().unanswered, kSegment);
  EXPECT_EQ(table_.recalled(), Bytes(0));
  EXPECT_THAT(table_.Unused(), IsEmpty());
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_ + seconds(3)));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(Open().bytes().unanswered, Bytes(0));
}

TEST_F(PoolTableTest, ARecallOutlivesTheLease) {
  const PoolSegmentId first = UnusedMapped();
  const ShareSerial share = *table_.Recall(first, now_ + kTtl + seconds(1), now_);
  now_ += kTtl;
  table_.Expire(now_);
  EXPECT_EQ(Returned(), 0U);
  EXPECT_EQ(table_.EndRecalls(now_ + seconds(1)), 1U);
  EXPECT_EQ(Returned(), 0U);
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  EXPECT_EQ(Returned(), 1U);

  ASSERT_TRUE(table_.Recall(UnusedMapped(), now_ + kTtl * 2, now_).has_value());
  now_ += kTtl;
  table_.Expire(now_);
  table_.EndSession(kSession, now_);
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(table_.recalled(), Bytes(0));
  EXPECT_EQ(table_.EndRecalls(now_ + kTtl * 3), 0U);
}

TEST_F(PoolTableTest, ARecallOfWhatWasNeverSentEndsWithItsSending) {
  const std::vector<Bytes> granted = Grow(1);
  const Shared shared = Begin(granted)->at(0);
  ASSERT_TRUE(table_.Shrink(kSession, Live(), granted, now_ + seconds(1), now_).ok());
  EXPECT_EQ(table_.recalled(), kSegment);
  table_.EndSending(shared, false);
  EXPECT_EQ(table_.recalled(), Bytes(0));
  EXPECT_EQ(Returned(), 0U);
  table_.EndExport(shared);
  EXPECT_EQ(Returned(), 1U);
}

TEST_F(PoolTableTest, ShrinkingGivesBackAllOrNothing) {
  const std::vector<Bytes> granted = Grow(3);
  const ShareSerial share = Map(granted[1]);
  const Buffer buffer = AcquireOne(kSegment);
  const PoolId pool = Live();
  const auto shrink = [&](const std::vector<Bytes>& offsets, SessionId session = kSession) {
    const Status status = table_.Shrink(session, pool, offsets, now_ + seconds(1), now_);
    table_.Validate();
    return status;
  };
  EXPECT_TRUE(HasReason(shrink(granted, kOther), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(shrink({granted[0], buffer.place.begin()}), Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(shrink({granted[0], granted[0]}), Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(shrink({granted[0], kSegment * 9}), Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(shrink({granted[0], granted[1] + Bytes(1)}), Reason::kInvalidRequest));
  EXPECT_EQ(Returned(), 0U);
  EXPECT_EQ(Open().bytes().blocks, kSegment * 4);

  EXPECT_TRUE(shrink({granted[0], granted[1]}).ok());
  EXPECT_EQ(Returned(), 1U);
  EXPECT_EQ(table_.recalled(), kSegment);
  EXPECT_EQ(Open().bytes().blocks, kSegment * 2);
  EXPECT_TRUE(HasReason(shrink({granted[1]}), Reason::kInvalidRequest));
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_TRUE(shrink({granted[2]}).ok());
  now_ += kTtl;
  table_.Expire(now_);
  EXPECT_TRUE(HasReason(shrink({granted[2]}), Reason::kLeaseNotFound));
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
  EXPECT_DEATH((void)table_.AddBuffers(Open(), two, {}), "CHECK failed");
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
