#include "tests/core/device/device_contract_test.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "tests/core/device/process_view.h"

namespace tenure {
namespace {

constexpr std::byte kZero{0};

bool AllEqual(std::span<const std::byte> bytes, std::byte value) {
  return std::all_of(bytes.begin(), bytes.end(), [=](std::byte b) { return b == value; });
}

TEST_P(DeviceContractTest, SaysWhatItIs) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_FALSE(info.backend.empty());
  EXPECT_FALSE(info.uuid.empty());
  EXPECT_FALSE(info.total.zero());
  EXPECT_EQ(AlignUp(Bytes(1), info.granule), info.granule) << "not a power of two";
}

TEST_P(DeviceContractTest, KeepsItsUuidWhenItIsMadeAgain) {
  EXPECT_EQ(GetParam().make()->info().uuid, device_->info().uuid);
}

TEST_P(DeviceContractTest, ANewSegmentHasTheSizeAskedForAndIsZero) {
  for (const uint64_t granules : {1U, 3U, 8U}) {
    const StatusOr<Segment> segment =
        device_->CreateSegment(SegmentUse::kWeights, granule_ * granules);
    ASSERT_TRUE(segment.ok()) << segment.status();
    EXPECT_EQ(segment->size(), granule_ * granules);
    EXPECT_TRUE(Holds(*segment, kZero));
    EXPECT_NE(segment->host_view().empty(), segment->device_address().value() == 0);
  }
}

TEST_P(DeviceContractTest, ReusedBackendMemoryIsZeroAgain) {
  for (int round = 0; round < 4; ++round) {
    const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_ * 4);
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(Holds(*segment, kZero));
    Fill(*segment, std::byte{0x5A});
  }
}

TEST_P(DeviceContractTest, WhatTheDaemonWritesIsSeenThroughTheExportedFd) {
  const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_ * 2);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const StatusOr<UniqueFd> fd = segment->Export();
  ASSERT_TRUE(fd.ok()) << fd.status();
  Fill(*segment, std::byte{0x11});
  EXPECT_TRUE(AllEqual(Import(fd->get(), segment->size()), std::byte{0x11}));
  FillRange(*segment, Range(segment->size() - Bytes(1), segment->size()), std::byte{0x22});
  const std::vector<std::byte> seen = Import(fd->get(), segment->size());
  EXPECT_EQ(seen.back(), std::byte{0x22});
  EXPECT_EQ(seen[seen.size() - 2], std::byte{0x11});
}

TEST_P(DeviceContractTest, SegmentsShareNoMemory) {
  const StatusOr<Segment> a = device_->CreateSegment(SegmentUse::kWeights, granule_);
  const StatusOr<Segment> b = device_->CreateSegment(SegmentUse::kWeights, granule_);
  ASSERT_TRUE(a.ok() && b.ok());
  Fill(*a, std::byte{0x33});
  EXPECT_TRUE(Holds(*b, kZero));
}

TEST_P(DeviceContractTest, SegmentsOfOneCreationComeInTheOrderAskedFor) {
  const std::vector<Bytes> sizes = {granule_ * 4, granule_, granule_ * 2};
  const StatusOr<std::vector<Segment>> segments =
      device_->CreateSegments(SegmentUse::kWeights, sizes);
  ASSERT_TRUE(segments.ok()) << segments.status();
  ASSERT_EQ(segments->size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ((*segments)[i].size(), sizes[i]);
    Fill((*segments)[i], std::byte(i + 1));
  }
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_TRUE(Holds((*segments)[i], std::byte(i + 1)));
  EXPECT_EQ(alive(), 3U);
  EXPECT_TRUE(device_->CreateSegments(SegmentUse::kWeights, {})->empty());
}

TEST_P(DeviceContractTest, ACreationThatFailsHalfWayLeavesNothing) {
  const std::vector<Bytes> sizes = {granule_, AlignUp(GiB(1 << 20), granule_)};
  const size_t fds = OpenFds();
  EXPECT_TRUE(
      HasReason(device_->CreateSegments(SegmentUse::kWeights, sizes).status(), Reason::kBackend));
  EXPECT_EQ(alive(), 0U);
  EXPECT_EQ(bytes_alive(), Bytes(0));
  EXPECT_EQ(OpenFds(), fds);
}

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

TEST_P(DeviceContractTest, CreatedMinusDestroyedIsWhatLives) {
  EXPECT_EQ(alive(), 0U);
  {
    const StatusOr<Segment> a = device_->CreateSegment(SegmentUse::kWeights, granule_);
    ASSERT_TRUE(a.ok());
    {
      const StatusOr<Segment> b = device_->CreateSegment(SegmentUse::kWeights, granule_ * 3);
      ASSERT_TRUE(b.ok());
      EXPECT_EQ(alive(), 2U);
      EXPECT_EQ(bytes_alive(), granule_ * 4);
    }
    EXPECT_EQ(alive(), 1U);
    EXPECT_EQ(bytes_alive(), granule_);
  }
  EXPECT_EQ(alive(), 0U);
  EXPECT_EQ(bytes_alive(), Bytes(0));
  EXPECT_EQ(device_->counters().bytes_created, granule_ * 4);
}

TEST_P(DeviceContractTest, AMovedSegmentIsGivenBackOnceByItsLastOwner) {
  StatusOr<Segment> created = device_->CreateSegment(SegmentUse::kWeights, granule_);
  ASSERT_TRUE(created.ok());
  Fill(*created, std::byte{0x44});
  {
    const Segment owner = *std::move(created);
    EXPECT_TRUE(Holds(owner, std::byte{0x44}));
    EXPECT_EQ(alive(), 1U);
  }
  EXPECT_EQ(device_->counters().segments_destroyed, 1U);
}

TEST_P(DeviceContractTest, AssigningToASegmentGivesBackWhatItHeld) {
  StatusOr<Segment> small = device_->CreateSegment(SegmentUse::kWeights, granule_);
  StatusOr<Segment> large = device_->CreateSegment(SegmentUse::kWeights, granule_ * 2);
  ASSERT_TRUE(small.ok() && large.ok());
  Segment a = *std::move(small);
  Segment b = *std::move(large);
  a = std::move(b);
  EXPECT_EQ(a.size(), granule_ * 2);
  EXPECT_EQ(bytes_alive(), granule_ * 2);
  // What was moved from takes a Segment again.
  b = std::move(a);
  EXPECT_EQ(b.size(), granule_ * 2);
  EXPECT_EQ(alive(), 1U);
}

// field case 17
TEST_P(DeviceContractTest, AnExportedFdPinsTheMemoryAfterTheSegmentIsGone) {
  std::optional<UniqueFd> leaked;
  {
    const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_);
    ASSERT_TRUE(segment.ok());
    Fill(*segment, std::byte{0x55});
    StatusOr<UniqueFd> fd = segment->Export();
    ASSERT_TRUE(fd.ok());
    leaked = *std::move(fd);
  }
  EXPECT_EQ(alive(), 0U);
  EXPECT_TRUE(AllEqual(Import(leaked->get(), granule_), std::byte{0x55}));
}

// field case 17
TEST_P(DeviceContractTest, AThousandSegmentsCreatedAndExportedLeaveNoFdOpen) {
  const size_t before = OpenFds();
  for (int i = 0; i < 1000; ++i) {
    const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, granule_);
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(segment->Export().ok());
  }
  EXPECT_EQ(OpenFds(), before);
  EXPECT_EQ(device_->counters().exports, 1000U);
  EXPECT_EQ(alive(), 0U);
}

TEST_P(DeviceContractTest, SegmentsAreCreatedAndDestroyedOnManyThreadsAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 20;
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t) {
    threads.emplace_back([this, mark = std::byte(t)] {
      for (int i = 0; i < kRounds; ++i) {
        const StatusOr<Segment> segment =
            device_->CreateSegment(SegmentUse::kWeights, granule_ * 2);
        ASSERT_TRUE(segment.ok()) << segment.status();
        Fill(*segment, mark);
        const StatusOr<UniqueFd> fd = segment->Export();
        ASSERT_TRUE(fd.ok()) << fd.status();
        ASSERT_TRUE(AllEqual(Import(fd->get(), segment->size()), mark));
        const BackendCounters counters = device_->counters();
        ASSERT_LE(counters.segments_destroyed, counters.segments_created);
        ASSERT_LE(counters.bytes_destroyed, counters.bytes_created);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_->counters().segments_created, uint64_t{kThreads} * kRounds);
  EXPECT_EQ(alive(), 0U);
  EXPECT_EQ(bytes_alive(), Bytes(0));
}

// field case 42
TEST_P(DeviceContractTest, MoreThanTheMachineHasIsRefusedAndLeavesNothingBehind) {
  const size_t fds = OpenFds();
  const StatusOr<Segment> segment =
      device_->CreateSegment(SegmentUse::kWeights, AlignUp(GiB(1 << 20), granule_));
  EXPECT_TRUE(HasReason(segment.status(), Reason::kBackend)) << segment.status();
  EXPECT_EQ(device_->counters().segments_created, 0U);
  EXPECT_EQ(OpenFds(), fds);
  EXPECT_TRUE(device_->CreateSegment(SegmentUse::kWeights, granule_).ok());
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

TEST_P(DeviceContractDeathTest, ASizeThatIsNoMultipleOfTheGranuleIsABugOfTheCaller) {
  EXPECT_DEATH((void)device_->CreateSegment(SegmentUse::kWeights, Bytes(0)), "");
  EXPECT_DEATH((void)device_->CreateSegment(SegmentUse::kWeights, granule_ + Bytes(4096)), "");
}

}  // namespace
}  // namespace tenure
