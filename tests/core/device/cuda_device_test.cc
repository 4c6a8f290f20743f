#include "core/device/cuda_device.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

#include "tests/core/device/cuda_machine.h"
#include "tests/core/device/device_contract_test.h"
#include "tests/core/device/process_view.h"
#include "tests/support/manual_clock.h"

// The CUDA backend where the driver says yes, no, nothing, or something else. The contract is kept
// on a real GPU too; the faults need an emulated one.

namespace tenure {
namespace {

using testing::HasSubstr;

const SteadyClock kClock;

std::unique_ptr<Device> MakeDevice() {
  StatusOr<std::unique_ptr<Device>> device = MakeFirstGpu(kClock);
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

INSTANTIATE_TEST_SUITE_P(Backends, DeviceContractTest,
                         testing::Values(DeviceBackend{"Cuda", &MakeDevice, &ReadThroughImport}),
                         BackendName);
INSTANTIATE_TEST_SUITE_P(Backends, DeviceContractDeathTest,
                         testing::Values(DeviceBackend{"Cuda", &MakeDevice, &ReadThroughImport}),
                         BackendName);

class CudaDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    machine_ = EmulatedMachine();
    if (machine_ == nullptr) GTEST_SKIP() << "needs an emulated GPU";
  }
  void TearDown() override {
    if (machine_ == nullptr) return;
    machine_->ClearFaults();
    machine_->ReleaseStreams();
    machine_->RestoreDevice(0);
  }

  // A Device whose driver calls may take ten seconds of `clock_`.
  std::unique_ptr<Device> Make() {
    CudaDeviceOptions options;
    options.driver_timeout = std::chrono::seconds(10);
    StatusOr<std::unique_ptr<Device>> device = MakeFirstGpu(clock_, options);
    EXPECT_TRUE(device.ok()) << device.status();
    return *std::move(device);
  }

  uint64_t Calls(const char* entry) const { return machine_->CallsOf(entry); }

  Status Write(Device& device, const Segment& segment, Bytes size) {
    TENURE_ASSIGN_OR_RETURN(const auto writer, device.OpenWriter());
    for (Bytes done; done < size;) {
      TENURE_ASSIGN_OR_RETURN(const auto into, writer->Prepare(segment, Range(done, size)));
      std::ranges::fill(into, std::byte{0x42});
      TENURE_RETURN_IF_ERROR(writer->Commit());
      done += Bytes(into.size());
    }
    return writer->Finish();
  }

  ManualClock clock_;
  EmulatedGpu* machine_ = nullptr;
};

TEST_F(CudaDeviceTest, ARunOfNewSegmentsIsMadeAccessibleWithOneCall) {
  const auto device = Make();
  const uint64_t accesses = Calls("cuMemSetAccess");
  const uint64_t creations = Calls("cuMemCreate");
  const std::vector<Bytes> sizes(16, MiB(8));
  const StatusOr<std::vector<Segment>> segments =
      device->CreateSegments(SegmentUse::kWeights, sizes);
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(Calls("cuMemCreate") - creations, 16U);
  EXPECT_EQ(Calls("cuMemSetAccess") - accesses, 1U);
}

TEST_F(CudaDeviceTest, NothingIsExportedBeforeItIsAskedFor) {
  const auto device = Make();
  const uint64_t exports = Calls("cuMemExportToShareableHandle");
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(2));
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_EQ(Calls("cuMemExportToShareableHandle"), exports);
  EXPECT_TRUE(segment->Export().ok());
  EXPECT_EQ(Calls("cuMemExportToShareableHandle"), exports + 1);
}

// field case 6
TEST_F(CudaDeviceTest, ACallThatFailsAtAnyStepLeavesNothingAndARetrySucceeds) {
  const auto device = Make();
  const std::vector<Bytes> sizes = {MiB(4), MiB(2), MiB(2)};
  const Bytes before = machine_->LiveBytes(0);
  for (const char* entry : {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemsetD8Async"}) {
    for (uint64_t step = 1;; ++step) {
      ASSERT_LT(step, 10U) << entry;
      EmulatedGpu::Calls call;
      call.first = step;
      machine_->Fail(entry, CUDA_ERROR_INVALID_VALUE, call);
      const size_t fds = OpenFds();
      const StatusOr<std::vector<Segment>> segments =
          device->CreateSegments(SegmentUse::kWeights, sizes);
      machine_->ClearFaults();
      if (segments.ok()) {
        EXPECT_GT(step, 1U) << entry << " was never called";
        break;
      }
      EXPECT_TRUE(HasReason(segments.status(), Reason::kDriver)) << segments.status();
      EXPECT_THAT(std::string(segments.status().message()), HasSubstr(entry));
      EXPECT_EQ(machine_->LiveBytes(0), before) << entry << " at step " << step;
      EXPECT_EQ(OpenFds(), fds) << entry << " at step " << step;
      EXPECT_EQ(device->counters().bytes_created, device->counters().bytes_destroyed);
    }
  }
  EXPECT_EQ(machine_->LiveBytes(0), before);
  EXPECT_TRUE(device->CreateSegments(SegmentUse::kWeights, sizes).ok());
}

TEST_F(CudaDeviceTest, AGpuWithoutMemoryLeftIsABackendThatHasNone) {
  const auto device = Make();
  const StatusOr<Segment> most = device->CreateSegment(SegmentUse::kWeights, GiB(3));
  ASSERT_TRUE(most.ok()) << most.status();
  const Status refused = device->CreateSegment(SegmentUse::kWeights, GiB(1)).status();
  EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  EXPECT_TRUE(device->Look().ok());
}

TEST_F(CudaDeviceTest, AnExportThatIsRefusedIsAnErrorAndTheSegmentGoesOn) {
  const auto device = Make();
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(2));
  ASSERT_TRUE(segment.ok()) << segment.status();
  machine_->Fail("cuMemExportToShareableHandle", CUDA_ERROR_NOT_SUPPORTED);
  const size_t fds = OpenFds();
  EXPECT_TRUE(HasReason(segment->Export().status(), Reason::kDriver));
  EXPECT_EQ(OpenFds(), fds);
  EXPECT_TRUE(segment->Export().ok());
}

TEST_F(CudaDeviceTest, ACopyThatFailsIsTold) {
  const auto device = Make();
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(16));
  ASSERT_TRUE(segment.ok()) << segment.status();
  for (const char* entry : {"cuMemcpyHtoDAsync", "cuEventRecord"}) {
    machine_->Fail(entry, CUDA_ERROR_INVALID_VALUE);
    const Status written = Write(*device, *segment, MiB(16));
    EXPECT_TRUE(HasReason(written, Reason::kDriver)) << entry << ": " << written;
    machine_->ClearFaults();
    EXPECT_TRUE(Write(*device, *segment, MiB(16)).ok()) << entry;
  }
}

// field case 6
TEST_F(CudaDeviceTest, ACopyAcrossOrAFillThatFailsAtAnyStepIsToldAndARetrySucceeds) {
  const auto device = Make();
  const StatusOr<Segment> from = device->CreateSegment(SegmentUse::kWeights, MiB(4));
  const StatusOr<Segment> to = device->CreateSegment(SegmentUse::kWeights, MiB(4));
  ASSERT_TRUE(from.ok() && to.ok());
  const auto move = [&]() -> Status {
    TENURE_ASSIGN_OR_RETURN(const auto writer, device->OpenWriter());
    for (uint64_t i = 0; i < 3; ++i) {
      const Range part(MiB(i), MiB(i + 1));
      TENURE_RETURN_IF_ERROR(writer->Fill(*from, part, std::byte(i + 1)));
      TENURE_RETURN_IF_ERROR(writer->CopyAcross(*from, part, *to, MiB(i + 1)));
    }
    return writer->Finish();
  };
  for (const char* entry : {"cuMemcpyDtoDAsync", "cuMemsetD8Async"}) {
    const uint64_t copies = Calls(entry);
    ASSERT_TRUE(move().ok());
    const uint64_t steps = Calls(entry) - copies;
    ASSERT_GT(steps, 0U) << entry << " was never called";
    for (uint64_t step = 1; step <= steps; ++step) {
      EmulatedGpu::Calls call;
      call.first = step;
      machine_->Fail(entry, CUDA_ERROR_INVALID_VALUE, call);
      const Status moved = move();
      machine_->ClearFaults();
      EXPECT_TRUE(HasReason(moved, Reason::kDriver))
          << entry << " at step " << step << ": " << moved;
      EXPECT_TRUE(move().ok()) << entry << " at step " << step;
    }
  }
  const StatusOr<UniqueFd> fd = to->Export();
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(ReadThroughImport(fd->get(), MiB(4)).back(), std::byte{3});
}

TEST_F(CudaDeviceTest, ACopyAcrossDoesNotPassThroughTheHostAndIsDoneOnceAFinishReturns) {
  const auto device = Make();
  const StatusOr<Segment> from = device->CreateSegment(SegmentUse::kWeights, MiB(2));
  const StatusOr<Segment> to = device->CreateSegment(SegmentUse::kWeights, MiB(2));
  ASSERT_TRUE(from.ok() && to.ok());
  const uint64_t through_host = Calls("cuMemcpyHtoDAsync") + Calls("cuMemcpyDtoHAsync");
  const uint64_t across = Calls("cuMemcpyDtoDAsync");
  const uint64_t waits = Calls("cuEventSynchronize");
  std::atomic<bool> finished = false;
  machine_->HoldStreams();
  std::thread copying([&] {
    const Range whole(Bytes(0), MiB(2));
    const auto writer = device->OpenWriter();
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_TRUE((*writer)->Fill(*from, whole, std::byte{9}).ok());
    EXPECT_TRUE((*writer)->CopyAcross(*from, whole, *to, Bytes(0)).ok());
    EXPECT_TRUE((*writer)->Finish().ok());
    finished = true;
  });
  while (Calls("cuEventSynchronize") == waits) std::this_thread::yield();
  EXPECT_FALSE(finished);
  machine_->ReleaseStreams();
  copying.join();
  EXPECT_EQ(Calls("cuMemcpyDtoDAsync") - across, 1U);
  EXPECT_EQ(Calls("cuMemcpyHtoDAsync") + Calls("cuMemcpyDtoHAsync"), through_host);
  const StatusOr<UniqueFd> fd = to->Export();
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(ReadThroughImport(fd->get(), MiB(2)).back(), std::byte{9});
}

// Nobody could tell what still arrives in memory that is given to somebody else.
TEST_F(CudaDeviceTest, AWaitThatFailsMeansThatTheGpuIsLost) {
  {
    const auto device = Make();
    machine_->Fail("cuStreamSynchronize", CUDA_ERROR_INVALID_VALUE);
    EXPECT_TRUE(HasReason(device->CreateSegment(SegmentUse::kWeights, MiB(2)).status(),
                          Reason::kDeviceLost));
  }
  machine_->ClearFaults();
  const auto device = Make();
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(16));
  ASSERT_TRUE(segment.ok()) << segment.status();
  machine_->Fail("cuEventSynchronize", CUDA_ERROR_INVALID_VALUE);
  EXPECT_TRUE(HasReason(Write(*device, *segment, MiB(16)), Reason::kDeviceLost));
  EXPECT_TRUE(HasReason(device->Look(), Reason::kDeviceLost));
}

TEST_F(CudaDeviceTest, ALostGpuSaysSoAndItsDriverIsNotAskedAnyMore) {
  auto device = Make();
  StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(2));
  ASSERT_TRUE(segment.ok()) << segment.status();
  machine_->LoseDevice(0, CUDA_ERROR_ECC_UNCORRECTABLE);
  const Status refused = device->CreateSegment(SegmentUse::kWeights, MiB(2)).status();
  EXPECT_TRUE(HasReason(refused, Reason::kDeviceLost)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE"));
  EXPECT_TRUE(HasReason(device->Look(), Reason::kDeviceLost));

  // Even if it came back: what was on it is gone.
  machine_->RestoreDevice(0);
  const uint64_t creations = Calls("cuMemCreate");
  const uint64_t unmaps = Calls("cuMemUnmap");
  EXPECT_TRUE(
      HasReason(device->CreateSegment(SegmentUse::kWeights, MiB(2)).status(), Reason::kDeviceLost));
  EXPECT_TRUE(HasReason(device->OpenWriter().status(), Reason::kDeviceLost));
  EXPECT_TRUE(HasReason(segment->Export().status(), Reason::kDeviceLost));
  segment = refused;
  device.reset();
  EXPECT_EQ(Calls("cuMemCreate"), creations);
  EXPECT_EQ(Calls("cuMemUnmap"), unmaps);
}

TEST_F(CudaDeviceTest, ACallThatDoesNotReturnInTimeMeansThatTheGpuIsLost) {
  auto device = Make();
  const std::string hanging = machine_->Hang("cuMemCreate");
  const uint64_t before = Calls("cuMemCreate");
  Status created;
  std::thread creator(
      [&] { created = device->CreateSegment(SegmentUse::kWeights, MiB(2)).status(); });
  // The call is under way once the driver has counted it.
  while (Calls("cuMemCreate") == before) std::this_thread::yield();
  clock_.Advance(std::chrono::seconds(9));
  EXPECT_TRUE(device->Look().ok());
  clock_.Advance(std::chrono::seconds(2));
  const Status lost = device->Look();
  EXPECT_TRUE(HasReason(lost, Reason::kDeviceLost)) << lost;
  EXPECT_THAT(std::string(lost.message()), HasSubstr("cuMemCreate has not returned"));
  machine_->ClearFaults();
  creator.join();
  EXPECT_TRUE(HasReason(created, Reason::kDeviceLost)) << created;
}

TEST_F(CudaDeviceTest, WhatOthersUseIsSeen) {
  const auto device = Make();
  const Bytes before = device->foreign();
  CUmemAllocationProp allocation{};
  allocation.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle other = 0;
  ASSERT_EQ(RawDriver().cuMemCreate(&other, MiB(512).count(), &allocation, 0), CUDA_SUCCESS);
  const StatusOr<Segment> own = device->CreateSegment(SegmentUse::kWeights, MiB(64));
  ASSERT_TRUE(own.ok()) << own.status();
  while (device->foreign() != before + MiB(512)) std::this_thread::yield();
  ASSERT_EQ(RawDriver().cuMemRelease(other), CUDA_SUCCESS);
  while (device->foreign() != before) std::this_thread::yield();
}

// Bytes leave a buffer long after they were committed: it is not filled anew before.
TEST_F(CudaDeviceTest, ABufferIsNotReusedWhileItsBytesAreOnTheirWay) {
  const auto device = Make();
  const StatusOr<Segment> segment = device->CreateSegment(SegmentUse::kWeights, MiB(16));
  ASSERT_TRUE(segment.ok()) << segment.status();
  machine_->HoldStreams();
  std::thread copying([&] {
    const auto writer = device->OpenWriter();
    ASSERT_TRUE(writer.ok());
    for (uint64_t i = 0; i < 4; ++i) {
      const auto into = (*writer)->Prepare(*segment, Range(MiB(4 * i), MiB(4 * i + 4)));
      ASSERT_TRUE(into.ok()) << into.status();
      ASSERT_EQ(Bytes(into->size()), MiB(4));
      std::ranges::fill(*into, std::byte(i + 1));
      ASSERT_TRUE((*writer)->Commit().ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
  });
  // The third buffer is the first one again: whoever wants it waits.
  const uint64_t waits = Calls("cuEventSynchronize");
  while (Calls("cuEventSynchronize") < waits + 2) std::this_thread::yield();
  machine_->ReleaseStreams();
  copying.join();
  const StatusOr<UniqueFd> fd = segment->Export();
  ASSERT_TRUE(fd.ok()) << fd.status();
  const std::vector<std::byte> content = ReadThroughImport(fd->get(), MiB(16));
  for (uint64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(content[MiB(4 * i).count()], std::byte(i + 1));
    EXPECT_EQ(content[MiB(4 * i + 4).count() - 1], std::byte(i + 1));
  }
}

TEST_F(CudaDeviceTest, AThousandHandOversOfMemoryLeaveFdsAndAddressesAsTheyWere) {
  const auto device = Make();
  const Bytes live = machine_->LiveBytes(0);
  const size_t fds = OpenFds();
  // Sizes that leave holes; 256 GiB in all, more than the addresses reserved.
  for (uint64_t i = 0; i < 200; ++i) {
    const std::vector<Bytes> sizes = {MiB(512), MiB(2 + i % 7 * 2), MiB(256)};
    ASSERT_TRUE(device->CreateSegments(SegmentUse::kWeights, sizes).ok());
  }
  EXPECT_EQ(machine_->LiveBytes(0), live);
  EXPECT_EQ(OpenFds(), fds);
}

TEST_F(CudaDeviceTest, AGpuOfAnotherUuidIsNotTaken) {
  const StatusOr<std::unique_ptr<Device>> device =
      MakeCudaDevice({.uuid = "GPU-00000000-0000-0000-0000-000000000000"}, clock_);
  EXPECT_TRUE(HasReason(device.status(), Reason::kDeviceNotFound)) << device.status();
  EXPECT_THAT(std::string(device.status().message()), HasSubstr(FindGpus()->front().uuid));
}

TEST_F(CudaDeviceTest, AStubOfTheDriverMeansNoDevicesInWords) {
  machine_->Fail("cuInit", CUDA_ERROR_STUB_LIBRARY);
  const Status refused = FindGpus().status();
  EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("stub"));
}

TEST_F(CudaDeviceTest, ItsCheckFindsNothingBad) {
  for (const CudaFinding& finding : CheckCuda()) {
    EXPECT_NE(finding.verdict, CudaFinding::Verdict::kBad)
        << finding.subject << ": " << finding.answer;
  }
}

}  // namespace
}  // namespace tenure
