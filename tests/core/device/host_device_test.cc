#include "core/device/host_device.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <signal.h>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/device/huge_pages.h"
#include "tests/core/device/device_contract_test.h"
#include "tests/core/device/process_view.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TENURE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENURE_SANITIZED 1
#endif
#endif

namespace tenure {
namespace {

std::unique_ptr<Device> MakeDevice(HugePages huge_pages = HugePages::kOff) {
  auto device = MakeHostDevice({.total = GiB(1), .huge_pages = huge_pages});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

std::vector<std::byte> ReadThroughMap(int fd, Bytes size) {
  void* map = ::mmap(nullptr, size.count(), PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return {};
  const auto* bytes = static_cast<const std::byte*>(map);
  std::vector<std::byte> copy(bytes, bytes + size.count());
  ::munmap(map, size.count());
  return copy;
}

INSTANTIATE_TEST_SUITE_P(
    Backends, DeviceContractTest,
    testing::Values(DeviceBackend{"Host", [] { return MakeDevice(); }, &ReadThroughMap},
                    DeviceBackend{"HostTryingHugePages", [] { return MakeDevice(HugePages::kTry); },
                                  &ReadThroughMap}),
    BackendName);
INSTANTIATE_TEST_SUITE_P(Backends, DeviceContractDeathTest,
                         testing::Values(DeviceBackend{"Host", [] { return MakeDevice(); },
                                                       &ReadThroughMap}),
                         BackendName);

uint64_t FreeHugePages() {
  uint64_t free = 0;
  std::ifstream("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages") >> free;
  return free;
}

class HostSegmentTest : public testing::Test {
 protected:
  HostSegmentTest() : device_(MakeDevice()) {
    StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, MiB(4));
    if (!segment.ok()) return;
    segment_.emplace(*std::move(segment));
    std::ranges::fill(segment_->host_view(), std::byte{0x66});
    StatusOr<UniqueFd> fd = segment_->Export();
    if (fd.ok()) fd_ = *std::move(fd);
  }

  void SetUp() override { ASSERT_TRUE(fd_.valid()); }

  // The weights as the daemon wrote them.
  bool Unchanged() const {
    const std::vector<std::byte> seen = ReadThroughMap(fd_.get(), MiB(4));
    return seen.size() == MiB(4).count() &&
           std::ranges::all_of(seen, [](std::byte b) { return b == std::byte{0x66}; });
  }

  const std::unique_ptr<Device> device_;
  std::optional<Segment> segment_;
  UniqueFd fd_;
};

// Everything that a holder of the fd may try in order to change the weights.
void ExpectReadOnly(int fd) {
  const size_t size = MiB(4).count();
  EXPECT_EQ(::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd, 0), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(2 * size)), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), -1);
  EXPECT_EQ(errno, EPERM);
  EXPECT_EQ(::fallocate(fd, 0, static_cast<off_t>(size), 4096), -1);
  EXPECT_EQ(errno, EPERM);
  void* map = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(::mprotect(map, size, PROT_READ | PROT_WRITE), -1);
  EXPECT_EQ(::madvise(map, size, MADV_REMOVE), -1);
  ::munmap(map, size);
}

// field case 41
TEST_F(HostSegmentTest, WhoeverHasTheFdCanOnlyRead) {
  ExpectReadOnly(fd_.get());
  EXPECT_TRUE(Unchanged());
}

// field case 41
TEST_F(HostSegmentTest, ReopeningTheFdForWritingGivesNoMoreThanReading) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd_.get());
  const UniqueFd reopened(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(reopened.valid()) << std::strerror(errno);
  ExpectReadOnly(reopened.get());
  EXPECT_EQ(::open(path.c_str(), O_RDWR | O_TRUNC | O_CLOEXEC), -1);
  EXPECT_TRUE(Unchanged());
}

// field case 41
TEST_F(HostSegmentTest, NoSealCanBeAddedToShutTheDaemonOut) {
  EXPECT_EQ(::fcntl(fd_.get(), F_GET_SEALS) &
                (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
  EXPECT_EQ(::fcntl(fd_.get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
}

// field case 41
TEST_F(HostSegmentTest, TheDaemonStillWritesAfterAllOfThat) {
  ExpectReadOnly(fd_.get());
  segment_->host_view().front() = std::byte{0x77};
  EXPECT_EQ(ReadThroughMap(fd_.get(), MiB(4)).front(), std::byte{0x77});
}

TEST_F(HostSegmentTest, AnotherProcessReadsTheWeightsThroughTheFd) {
  EXPECT_TRUE(InChild([this] { return Unchanged(); }));
}

TEST_F(HostSegmentTest, AForkedChildDoesNotInheritTheDaemonsMap) {
  ASSERT_EQ(SegmentMaps(), 1U);
  EXPECT_TRUE(InChild([] { return SegmentMaps() == 0; }));
}

// field case 42
TEST_F(HostSegmentTest, EveryPageExistsBeforeItIsTouched) {
  const StatusOr<Segment> untouched = device_->CreateSegment(SegmentUse::kWeights, MiB(4));
  ASSERT_TRUE(untouched.ok());
  const StatusOr<UniqueFd> fd = untouched->Export();
  ASSERT_TRUE(fd.ok());
  struct stat st {};
  ASSERT_EQ(::fstat(fd->get(), &st), 0);
  EXPECT_EQ(Bytes(static_cast<uint64_t>(st.st_blocks) * 512), MiB(4));
}

TEST_F(HostSegmentTest, TheViewIsAlignedForLargePages) {
  for (const Bytes size : {MiB(2), MiB(6), MiB(64)}) {
    const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kWeights, size);
    ASSERT_TRUE(segment.ok());
    const auto address = reinterpret_cast<uintptr_t>(segment->host_view().data());
    EXPECT_EQ(address % MiB(2).count(), 0U);
  }
}

TEST_F(HostSegmentTest, TheExportedFdIsClosedOnExec) {
  EXPECT_EQ(::fcntl(fd_.get(), F_GETFD), FD_CLOEXEC);
}

TEST_F(HostSegmentTest, DestroyingASegmentLeavesNothingThatHoldsItsMemory) {
  EXPECT_EQ(SegmentMaps(), 1U);
  EXPECT_EQ(SegmentFds(), 2U);
  fd_.Reset();
  segment_.reset();
  EXPECT_EQ(SegmentMaps(), 0U);
  EXPECT_EQ(SegmentFds(), 0U);
}

// field case 17
TEST(HostDeviceTest, WithoutFdsLeftCreatingAndExportingAreRefusedAndRecover) {
  const std::unique_ptr<Device> device = MakeDevice();
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(2));
  ASSERT_TRUE(segment.ok());
  {
    const SoftLimit none(RLIMIT_NOFILE, 0);
    EXPECT_TRUE(
        HasReason(device->CreateSegment(SegmentUse::kWeights, MiB(2)).status(), Reason::kBackend));
    EXPECT_TRUE(HasReason(segment->Export().status(), Reason::kBackend));
  }
  EXPECT_TRUE(device->CreateSegment(SegmentUse::kWeights, MiB(2)).ok());
  EXPECT_TRUE(segment->Export().ok());
  EXPECT_EQ(device->counters().exports, 1U);
}

// field case 17
TEST_F(HostSegmentTest, ADestroyedSegmentIsStrandedUntilTheLastFdAndMapOfItAreGone) {
  UniqueFd copy(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  void* const map = ::mmap(nullptr, MiB(4).count(), PROT_READ, MAP_SHARED, fd_.get(), 0);
  ASSERT_NE(map, MAP_FAILED);
  EXPECT_EQ(device_->stranded(SegmentUse::kWeights), Bytes(0));
  segment_.reset();
  EXPECT_EQ(device_->counters().bytes_destroyed, MiB(4));
  EXPECT_EQ(device_->stranded(SegmentUse::kWeights), MiB(4));
  EXPECT_TRUE(Unchanged());
  fd_.Reset();
  copy.Reset();
  (void)device_->Look();
  EXPECT_EQ(device_->stranded(SegmentUse::kWeights), MiB(4));
  ::munmap(map, MiB(4).count());
  (void)device_->Look();
  EXPECT_EQ(device_->stranded(SegmentUse::kWeights), Bytes(0));
}

// field case 41
TEST_F(HostSegmentTest, RuntimeMemoryIsWrittenByItsHolderAndKeepsItsSize) {
  const StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kRuntime, MiB(4));
  ASSERT_TRUE(segment.ok()) << segment.status();
  const StatusOr<UniqueFd> fd = segment->Export();
  ASSERT_TRUE(fd.ok()) << fd.status();
  const size_t size = MiB(4).count();
  void* const map = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0);
  ASSERT_NE(map, MAP_FAILED) << std::strerror(errno);
  static_cast<std::byte*>(map)[size - 1] = std::byte{0x12};
  EXPECT_EQ(segment->host_view().back(), std::byte{0x12});
  for (const off_t length : {off_t{0}, static_cast<off_t>(2 * size)}) {
    EXPECT_EQ(::ftruncate(fd->get(), length), -1);
    EXPECT_EQ(errno, EPERM);
  }
  EXPECT_EQ(::fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(errno, EPERM);
  ::munmap(map, size);
}

// field case 17
TEST_F(HostSegmentTest, WhatIsStrandedIsToldByUse) {
  StatusOr<Segment> segment = device_->CreateSegment(SegmentUse::kRuntime, MiB(2));
  ASSERT_TRUE(segment.ok()) << segment.status();
  const StatusOr<UniqueFd> fd = segment->Export();
  segment = absl::CancelledError("destroyed");
  segment_.reset();
  EXPECT_EQ(device_->stranded(SegmentUse::kRuntime), MiB(2));
  EXPECT_EQ(device_->stranded(SegmentUse::kWeights), MiB(4));
}

// field case 17
TEST(HostDeviceTest, NothingIsStrandedOrWatchedOnceItsExportedFdsAreClosed) {
  const std::unique_ptr<Device> device = MakeDevice();
  for (int i = 0; i < 20; ++i) {
    const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(2));
    ASSERT_TRUE(segment.ok()) << segment.status();
    ASSERT_TRUE(segment->Export().ok());
  }
  EXPECT_EQ(device->stranded(SegmentUse::kWeights), Bytes(0));
  EXPECT_EQ(InotifyWatches(), 0U);
}

// field case 17
TEST(HostDeviceTest, WithoutProcExportingGoesOnAndNothingIsSaidAboutStrandedBytes) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can change its root directory";
  EXPECT_TRUE(InChild([] {
    if (::chroot("/sys/kernel") != 0) return false;
    const auto device = MakeHostDevice({.total = GiB(1)});
    if (!device.ok() || (*device)->stranded(SegmentUse::kWeights).has_value()) return false;
    StatusOr<Segment> segment = (*device)->CreateSegment(SegmentUse::kWeights, MiB(2));
    if (!segment.ok()) return false;
    const StatusOr<UniqueFd> fd = segment->Export();
    if (!fd.ok()) return false;
    { const Segment destroyed = *std::move(segment); }
    return !(*device)->stranded(SegmentUse::kWeights).has_value() &&
           ReadThroughMap(fd->get(), MiB(2)).size() == MiB(2).count();
  }));
}

// field case 42
TEST(HostDeviceTest, AFileSizeLimitIsAnErrorAndNotASignal) {
  const std::unique_ptr<Device> device = MakeDevice();
  {
    const SoftLimit small(RLIMIT_FSIZE, MiB(1).count());
    const Status refused = device->CreateSegment(SegmentUse::kWeights, MiB(2)).status();
    EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  }
  EXPECT_EQ(SegmentMaps() + SegmentFds(), 0U);
  EXPECT_TRUE(device->CreateSegment(SegmentUse::kWeights, MiB(2)).ok());
}

TEST(HostDeviceTest, WithoutAddressSpaceLeftCreatingIsRefusedAndLeavesNothingBehind) {
#ifdef TENURE_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space without bounds";
#else
  const std::unique_ptr<Device> device = MakeDevice();
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  statm >> pages;
  {
    const SoftLimit tight(RLIMIT_AS, pages * 4096 + MiB(16).count());
    const Status refused = device->CreateSegment(SegmentUse::kWeights, MiB(64)).status();
    EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  }
  EXPECT_EQ(SegmentMaps() + SegmentFds(), 0U);
  EXPECT_TRUE(device->CreateSegment(SegmentUse::kWeights, MiB(64)).ok());
#endif
}

TEST(HostDeviceTest, ARefusalSaysWhatIsAvailable) {
  const Status refused = MakeDevice()->CreateSegment(SegmentUse::kWeights, GiB(1 << 20)).status();
  const std::optional<ErrorDetail> detail = DetailOf(refused);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->values[0], std::pair(std::string("device"), std::string("host:0")));
  EXPECT_EQ(detail->values[2].first, "available_bytes");
}

// A profiler's timer interrupts system calls all the time.
TEST(HostDeviceTest, SignalsDoNotKeepALargeSegmentFromBeingCreated) {
  const std::unique_ptr<Device> device = MakeDevice();
  struct sigaction ignore {};
  struct sigaction before {};
  ignore.sa_handler = [](int) {};
  ::sigaction(SIGALRM, &ignore, &before);
  const itimerval every = {.it_interval = {0, 5000}, .it_value = {0, 5000}};
  const itimerval never = {};
  ::setitimer(ITIMER_REAL, &every, nullptr);
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(128));
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &before, nullptr);
  EXPECT_TRUE(segment.ok()) << segment.status();
}

TEST(HostDeviceTest, TwoDevicesOfOneMachineHaveDifferentUuids) {
  const auto a = MakeHostDevice({.name = "host:0", .total = GiB(1)});
  const auto b = MakeHostDevice({.name = "host:1", .total = GiB(1)});
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_NE((*a)->info().uuid, (*b)->info().uuid);
}

// field case 43
TEST(HugePagesTest, RequiredWithNoneInThePoolIsAnErrorThatNamesThePool) {
  if (FreeHugePages() > 0) GTEST_SKIP() << "this machine has huge pages";
  const auto device = MakeHostDevice({.total = GiB(1), .huge_pages = HugePages::kRequire});
  ASSERT_TRUE(HasReason(device.status(), Reason::kBackend)) << device.status();
  EXPECT_EQ(DetailOf(device.status())->values[0].first, "huge_pages_total");
  EXPECT_NE(std::string(device.status().message()).find("vm.nr_hugepages"), std::string::npos);
}

// field case 43
TEST(HugePagesTest, TriedWithNoneInThePoolFallsBackToOrdinaryPages) {
  if (FreeHugePages() > 0) GTEST_SKIP() << "this machine has huge pages";
  const std::unique_ptr<Device> device = MakeDevice(HugePages::kTry);
  EXPECT_TRUE(device->CreateSegment(SegmentUse::kWeights, MiB(2)).ok());
  EXPECT_EQ(device->counters().segments_created, 1U);
  EXPECT_EQ(device->counters().huge_segments_created, 0U);
}

TEST(HugePagesTest, RequiredWithSomeInThePoolAreUsedUntilThePoolIsEmpty) {
  const uint64_t free = FreeHugePages();
  if (free == 0) GTEST_SKIP() << "this machine has no huge pages";
  const auto device = MakeHostDevice({.total = GiB(1), .huge_pages = HugePages::kRequire});
  ASSERT_TRUE(device.ok()) << device.status();
  StatusOr<Segment> segment = (*device)->CreateSegment(SegmentUse::kWeights, MiB(2));
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ((*device)->counters().huge_segments_created, 1U);
  std::ranges::fill(segment->host_view(), std::byte{0x01});
  const Status beyond = (*device)->CreateSegment(SegmentUse::kWeights, MiB(2) * free).status();
  EXPECT_TRUE(HasReason(beyond, Reason::kBackend)) << beyond;
}

TEST(HugePagesTest, ProbingLeavesNothingOpen) {
  const size_t before = OpenFds();
  (void)ProbeHugePages();
  EXPECT_EQ(OpenFds(), before);
}

}  // namespace
}  // namespace tenure
