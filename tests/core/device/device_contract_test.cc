#include "tests/core/device/device_contract_test.h"

#include <optional>
#include <thread>
#include <utility>

#include "tests/core/device/process_view.h"

namespace tenure {
namespace {

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

TEST_P(DeviceContractDeathTest, ASizeThatIsNoMultipleOfTheGranuleIsABugOfTheCaller) {
  EXPECT_DEATH((void)device_->CreateSegment(SegmentUse::kWeights, Bytes(0)), "");
  EXPECT_DEATH((void)device_->CreateSegment(SegmentUse::kWeights, granule_ + Bytes(4096)), "");
}

}  // namespace
}  // namespace tenure
