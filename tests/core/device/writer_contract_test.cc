// What a Device's writers must do, whatever the backend.

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tests/core/device/device_contract_test.h"

namespace tenure {
namespace {

// Pieces as a copy makes them: many small ones, and some larger than any buffer on the way.
TEST_P(DeviceContractTest, PiecesOfAnySizeArriveWhereTheyBelong) {
  const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_ * 8);
  ASSERT_TRUE(segment.ok()) << segment.status();
  std::vector<std::byte> expected(segment->size().count(), kZero);
  const auto writer = device_->OpenWriter();
  ASSERT_TRUE(writer.ok()) << writer.status();
  uint64_t at = 0;
  for (uint64_t number = 1; at + 3 < expected.size(); ++number) {
    const uint64_t length = number % 50 == 0 ? MiB(5).count() : 1 + number * 7919 % 100'000;
    Range left(Bytes(at), Bytes(std::min(at + length, uint64_t{expected.size()})));
    std::fill(expected.begin() + static_cast<ptrdiff_t>(left.begin().count()),
              expected.begin() + static_cast<ptrdiff_t>(left.end().count()), std::byte(number));
    at = left.end().count() + 3;
    while (!left.empty()) {
      const auto into = (*writer)->Prepare(*segment, left);
      ASSERT_TRUE(into.ok()) << into.status();
      std::ranges::fill(*into, std::byte(number));
      ASSERT_TRUE((*writer)->Commit().ok());
      left = Range(left.begin() + Bytes(into->size()), left.end());
    }
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(ContentOf(*segment), expected);
}

TEST_P(DeviceContractTest, NothingIsOnItsWayOnceAWriterIsGone) {
  const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_);
  const StatusOr<Segment> other = device_->CreateSegment(SegmentUse::kWeights, granule_);
  ASSERT_TRUE(segment.ok() && other.ok());
  {
    const auto writer = device_->OpenWriter();
    Put(**writer, *segment, Range(Bytes(0), KiB(64)), std::byte{0x77});
    ASSERT_TRUE((*writer)->CopyAcross(*segment, Range(Bytes(0), KiB(1)), *other, KiB(3)).ok());
    ASSERT_TRUE((*writer)->Fill(*other, Range(KiB(5), KiB(6)), std::byte{0x88}).ok());
  }
  EXPECT_EQ(ContentOf(*segment).front(), std::byte{0x77});
  const std::vector<std::byte> content = ContentOf(*other);
  EXPECT_EQ(content[KiB(4).count() - 1], std::byte{0x77});
  EXPECT_EQ(content[KiB(6).count() - 1], std::byte{0x88});
}

// Every third length, at odd places, from one Segment to another and within one.
TEST_P(DeviceContractTest, BytesAreCopiedAcrossToWhereTheyBelongAndNowhereElse) {
  const StatusOr<Segment> source = device_->CreateSegment(SegmentUse::kWeights, granule_ * 4);
  const StatusOr<Segment> target = device_->CreateSegment(SegmentUse::kWeights, granule_ * 4);
  ASSERT_TRUE(source.ok() && target.ok());
  const auto writer = device_->OpenWriter();
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<std::byte> from(source->size().count(), kZero);
  for (uint64_t at = 0; at < from.size(); at += KiB(64).count()) {
    const auto value = std::byte(at / KiB(64).count() * 37 + 1);
    std::fill_n(from.begin() + static_cast<ptrdiff_t>(at), KiB(64).count(), value);
    Put(**writer, *source, Range(Bytes(at), Bytes(at) + KiB(64)), value);
  }
  std::vector<std::byte> expected(target->size().count(), kZero);
  Bytes to;
  for (uint64_t length = 1; to + Bytes(length + 1) < target->size(); length = length * 3 + 1) {
    const Range range(target->size() - to - Bytes(length), target->size() - to);
    ASSERT_TRUE((*writer)->CopyAcross(*source, range, *target, to).ok());
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(range.begin().count()), length,
                expected.begin() + static_cast<ptrdiff_t>(to.count()));
    to += Bytes(length + 1);
  }
  const Range last(source->size() - KiB(100), source->size());
  ASSERT_TRUE((*writer)->CopyAcross(*source, last, *source, Bytes(7)).ok());
  std::copy_n(from.end() - static_cast<ptrdiff_t>(last.size().count()), last.size().count(),
              from.begin() + 7);
  ASSERT_TRUE((*writer)->Finish().ok());
  EXPECT_EQ(ContentOf(*target), expected);
  EXPECT_EQ(ContentOf(*source), from);
}

TEST_P(DeviceContractTest, AFillChangesJustTheBytesThatItIsToChange) {
  const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_ * 2);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const auto writer = device_->OpenWriter();
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<std::byte> expected(segment->size().count(), std::byte{0x5A});
  const Range whole(Bytes(0), segment->size());
  ASSERT_TRUE((*writer)->Fill(*segment, whole, std::byte{0x5A}).ok());
  const Range middle(Bytes(4099), segment->size() - Bytes(1));
  ASSERT_TRUE((*writer)->Fill(*segment, middle, kZero).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  std::fill(expected.begin() + 4099, expected.end() - 1, kZero);
  EXPECT_EQ(ContentOf(*segment), expected);
}

TEST_P(DeviceContractTest, WhatOneWriterDoesHappensInTheOrderOfTheCalls) {
  const StatusOr<Segment> a = device_->CreateSegment(SegmentUse::kWeights, granule_);
  const StatusOr<Segment> b = device_->CreateSegment(SegmentUse::kWeights, granule_);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto writer = device_->OpenWriter();
  ASSERT_TRUE(writer.ok()) << writer.status();
  const Range first(Bytes(0), KiB(64));
  for (unsigned value = 1; value <= 8; value += 2) {
    Put(**writer, *a, first, std::byte(value));
    ASSERT_TRUE((*writer)->CopyAcross(*a, first, *b, first.size() * (value - 1)).ok());
    ASSERT_TRUE((*writer)->Fill(*a, first, std::byte(value + 1)).ok());
    ASSERT_TRUE((*writer)->CopyAcross(*a, first, *b, first.size() * value).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
  const std::vector<std::byte> content = ContentOf(*b);
  for (uint64_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(AllEqual(std::span(content).subspan(i * KiB(64).count(), KiB(64).count()),
                         std::byte(i + 1)))
        << i;
  }
  EXPECT_EQ(ContentOf(*a).front(), std::byte{8});
}

TEST_P(DeviceContractDeathTest, ACopyOrAFillBeyondASegmentOrOntoItselfIsABugOfTheCaller) {
  const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_);
  const StatusOr<Segment> other = device_->CreateSegment(SegmentUse::kWeights, granule_);
  ASSERT_TRUE(segment.ok() && other.ok());
  const auto writer = device_->OpenWriter();
  ASSERT_TRUE(writer.ok()) << writer.status();
  const Range range(KiB(4), KiB(8));
  const Range beyond(granule_ - KiB(1), granule_ + Bytes(1));
  EXPECT_DEATH((void)(*writer)->CopyAcross(*segment, beyond, *other, Bytes(0)), "");
  EXPECT_DEATH((void)(*writer)->CopyAcross(*segment, range, *other, granule_ - KiB(3)), "");
  EXPECT_DEATH((void)(*writer)->CopyAcross(*segment, range, *segment, KiB(5)), "");
  EXPECT_DEATH((void)(*writer)->CopyAcross(*segment, Range(), *other, Bytes(0)), "");
  EXPECT_DEATH((void)(*writer)->Fill(*segment, beyond, kZero), "");
}

}  // namespace
}  // namespace tenure
