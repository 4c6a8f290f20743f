// What a session has mapped of its pool, and how it comes back.

#include "tests/core/runtime/pool_table_fixture.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Shared = PoolTable::Shared;
using PoolShareTest = PoolTableTest;
// --- Shares.

TEST_F(PoolShareTest, OnlySegmentsThatAreThereAreExported) {
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

TEST_F(PoolShareTest, ASegmentIsExportedUnderOneSerialUntilItsShareEnds) {
  const Buffer buffer = AcquireOne(kSegment);
  const ShareSerial share = Map(buffer.place.begin());
  EXPECT_EQ(Map(buffer.place.begin()), share);
  EXPECT_TRUE(table_.CloseShare(kSession, share, now_));
  // The Buffer is still there, and may be mapped again.
  EXPECT_EQ(Returned(), 0U);
  EXPECT_NE(Map(buffer.place.begin()), share);
  EXPECT_FALSE(table_.CloseShare(kSession, share, now_));
}

TEST_F(PoolShareTest, NobodyEndsTheShareOfAnother) {
  const Buffer buffer = AcquireOne(kSegment);
  const ShareSerial share = Map(buffer.place.begin());
  ASSERT_TRUE(Release(buffer).ok());
  EXPECT_FALSE(table_.CloseShare(kOther, share, now_));
  EXPECT_FALSE(table_.CloseShare(kSession, ShareSerial(), now_));
  EXPECT_FALSE(table_.CloseShare(kSession, ShareSerial(99), now_));
  EXPECT_EQ(Returned(), 0U);
  EXPECT_EQ(table_.UseBy(kSession).shares, 1U);
}

TEST_F(PoolShareTest, UnmappingGivesBackWhatIsUnusedOrWasGranted) {
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

TEST_F(PoolShareTest, AShareOfWhichNothingWasSentEndsWithItsLastSending) {
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

TEST_F(PoolShareTest, AShareOfWhichOnceSomethingWasSentOutlivesSendingsThatFail) {
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

TEST_F(PoolShareTest, ANewShareOfASegmentKnowsNothingOfTheOneBefore) {
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

TEST_F(PoolShareTest, WhatWasNeverSentIsReturnedOnceExportAndSendingHaveEnded) {
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

TEST_F(PoolShareTest, AnExportUnderASerialThatEndedIsNotSentAndChangesNothing) {
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

TEST_F(PoolShareTest, WhatIsGivenBackWhileItIsExportedIsReturnedAfterwards) {
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

TEST_F(PoolShareTest, UnusedSegmentsAreToldUnmappedOnesFirstAndThenTheOldest) {
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
TEST_F(PoolShareTest, WhatIsOnItsWayToItsSessionIsNotAskedFor) {
  const Buffer buffer = AcquireOne(kSegment);
  const Shared shared = Begin({buffer.place.begin()})->at(0);
  ASSERT_TRUE(Release(buffer).ok());
  EXPECT_THAT(table_.Unused(), IsEmpty());
  table_.EndExport(shared);
  EXPECT_THAT(table_.Unused(), IsEmpty());
  table_.EndSending(shared, true);
  EXPECT_THAT(table_.Unused(), SizeIs(1));
}

TEST_F(PoolShareTest, WhatNobodyHasMappedComesBackAtOnce) {
  ASSERT_TRUE(Release(AcquireOne(kSegment)).ok());
  EXPECT_EQ(table_.Recall({Live(), Bytes(0)}, now_ + seconds(1), now_), std::nullopt);
  EXPECT_EQ(table_.recalled(), Bytes(0));
  EXPECT_EQ(Returned(), 1U);
  EXPECT_NE(table_.FindLive(Live()), nullptr);
}

TEST_F(PoolShareTest, AnAnsweredRecallReturnsTheSegment) {
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

TEST_F(PoolShareTest, AnUnansweredRecallIsInQuarantineUntilItIsAnswered) {
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

TEST_F(PoolShareTest, ARecallOutlivesTheLease) {
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

TEST_F(PoolShareTest, ARecallOfWhatWasNeverSentEndsWithItsSending) {
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

TEST_F(PoolShareTest, ShrinkingGivesBackAllOrNothing) {
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

}  // namespace
}  // namespace tenure
