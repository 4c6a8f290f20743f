#include "client/cpp/cuda_mapping.h"

#include <atomic>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/errors.h"
#include "tests/client/cuda_machine.h"
#include "tests/client/eventually.h"

namespace tenure::client {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class CudaMappingTest : public ::testing::Test {
 protected:
  CudaMappingTest() { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  ~CudaMappingTest() override { machine_.ClearFaults(); }

  std::shared_ptr<Mapping> Reserve(uint64_t bytes) const {
    return *CudaMapping::Reserve(device_, bytes);
  }
  // Of 4 MiB of 'a' and 2 MiB of 'b'.
  std::shared_ptr<Mapping> MapBoth() const {
    std::shared_ptr<Mapping> mapping = Reserve(6 * kMiB);
    EXPECT_TRUE(mapping->Append(a_.Export(), 4 * kMiB).ok());
    EXPECT_TRUE(mapping->Append(b_.Export(), 2 * kMiB).ok());
    return mapping;
  }
  static std::string Read(const Mapping& mapping, uint64_t offset, uint64_t bytes) {
    std::string content(bytes, ' ');
    const absl::Status status =
        mapping.CopyToHost(offset, std::as_writable_bytes(std::span(content)));
    return status.ok() ? content : status.ToString();
  }

  // Calls since it was made, or since Restart.
  class Calls {
   public:
    explicit Calls(const EmulatedGpu& machine) : machine_(machine) {}
    void Restart() {
      for (auto& [entry, count] : before_) count = machine_.CallsOf(entry);
    }
    uint64_t Of(const std::string& entry) const {
      return machine_.CallsOf(entry) - before_.at(entry);
    }

   private:
    const EmulatedGpu& machine_;
    std::map<std::string, uint64_t> before_{
        {"cuMemAddressReserve", 0}, {"cuMemAddressFree", 0}, {"cuMemImportFromShareableHandle", 0},
        {"cuMemRelease", 0},        {"cuMemMap", 0},         {"cuMemUnmap", 0},
        {"cuMemSetAccess", 0},      {"cuCtxSynchronize", 0}};
  };

  EmulatedGpu& machine_ = Machine();
  const std::shared_ptr<CudaDevice> device_ = Device(kSecondGpu);
  const CudaSegment a_{device_, 4 * kMiB, 'a'};
  const CudaSegment b_{device_, 2 * kMiB, 'b'};
  Calls calls_{machine_};
};

TEST_F(CudaMappingTest, StitchesSegmentsSideBySideInTheirOrder) {
  const auto mapping = MapBoth();
  EXPECT_TRUE(mapping->complete());
  EXPECT_EQ(reinterpret_cast<uint64_t>(mapping->base()) % (2 * kMiB), 0u);
  EXPECT_EQ(mapping->cuda_ordinal(), 1);
  EXPECT_EQ(Read(*mapping, 0, 6 * kMiB), std::string(4 * kMiB, 'a') + std::string(2 * kMiB, 'b'));
  EXPECT_EQ(Read(*mapping, 4 * kMiB - 1, 2), "ab");
}

TEST_F(CudaMappingTest, RefusesToReadBeyondTheRegion) {
  const auto mapping = MapBoth();
  std::vector<std::byte> bytes(2);
  EXPECT_EQ(mapping->CopyToHost(6 * kMiB - 1, bytes).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(mapping->CopyToHost(UINT64_MAX, bytes).code(), absl::StatusCode::kOutOfRange);
  EXPECT_TRUE(mapping->CopyToHost(6 * kMiB, {}).ok());
}

TEST_F(CudaMappingTest, ImportsEachSegmentOnceAndGivesAccessToAllAtOnce) {
  calls_.Restart();
  const auto mapping = Reserve(6 * kMiB);
  ASSERT_TRUE(mapping->Append(a_.Export(), 4 * kMiB).ok());
  EXPECT_FALSE(mapping->complete());
  EXPECT_EQ(calls_.Of("cuMemSetAccess"), 0u);
  EXPECT_EQ(calls_.Of("cuMemRelease"), 1u);
  ASSERT_TRUE(mapping->Append(b_.Export(), 2 * kMiB).ok());
  EXPECT_EQ(calls_.Of("cuMemImportFromShareableHandle"), 2u);
  EXPECT_EQ(calls_.Of("cuMemMap"), 2u);
  EXPECT_EQ(calls_.Of("cuMemRelease"), 2u);
  EXPECT_EQ(calls_.Of("cuMemSetAccess"), 1u);
}

TEST_F(CudaMappingTest, TheMappingAloneKeepsTheMemory) {
  const Bytes before = machine_.LiveBytes(kSecondGpu);
  auto given = std::make_unique<CudaSegment>(device_, 2 * kMiB, 'c');
  const auto mapping = Reserve(2 * kMiB);
  ASSERT_TRUE(mapping->Append(given->Export(), 2 * kMiB).ok());
  given.reset();
  EXPECT_EQ(machine_.LiveBytes(kSecondGpu), before + MiB(2));
  EXPECT_EQ(Read(*mapping, 0, 3), "ccc");
  ASSERT_TRUE(mapping->Unmap().ok());
  EXPECT_EQ(machine_.LiveBytes(kSecondGpu), before);
  EXPECT_EQ(mapping->base(), nullptr);
}

TEST_F(CudaMappingTest, AThousandMappingsLeaveNothingBehind) {
  MapBoth();
  const size_t fds = OpenFds();
  const Bytes live = machine_.LiveBytes(kSecondGpu);
  calls_.Restart();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(MapBoth()->Unmap().ok());
  EXPECT_EQ(OpenFds(), fds);
  EXPECT_EQ(machine_.LiveBytes(kSecondGpu), live);
  EXPECT_EQ(calls_.Of("cuMemImportFromShareableHandle"), 2000u);
  EXPECT_EQ(calls_.Of("cuMemRelease"), 2000u);
  EXPECT_EQ(calls_.Of("cuMemMap"), 2000u);
  EXPECT_EQ(calls_.Of("cuMemUnmap"), 2000u);
  EXPECT_EQ(calls_.Of("cuMemAddressReserve"), 1000u);
  EXPECT_EQ(calls_.Of("cuMemAddressFree"), 1000u);
}

TEST_F(CudaMappingTest, WritingThroughItEndsTheProcessesWorkOnTheDevice) {
  // Which is why it happens in a process of its own.
  const auto write = [this] {
    const auto mapping = MapBoth();
    const CudaScope scope(*device_);
    const auto memset = reinterpret_cast<decltype(&cuMemsetD8)>(FindInDriver("cuMemsetD8_v2"));
    if (memset(reinterpret_cast<CUdeviceptr>(mapping->base()), 'z', 1) == CUDA_SUCCESS) exit(1);
    fputs(Read(*mapping, 0, 1).c_str(), stderr);
    exit(mapping->Unmap().ok() ? 2 : 3);
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(3), "CUDA_ERROR_ILLEGAL_ADDRESS");
}

TEST_F(CudaMappingTest, UnmappingWaitsForTheWorkThatIsUnderWay) {
  const auto mapping = MapBoth();
  const auto callers = Device(kSecondGpu);
  void* pinned = nullptr;
  {
    const CudaScope scope(*callers);
    TENURE_CALL_DRIVER(cuMemHostAlloc, &pinned, size_t{4096}, 0U);
    machine_.HoldStreams();
    TENURE_CALL_DRIVER(cuMemcpyDtoHAsync, pinned, reinterpret_cast<CUdeviceptr>(mapping->base()),
                       size_t{4096}, callers->stream());
  }
  calls_.Restart();
  std::atomic<bool> unmapped = false;
  std::thread other([&] {
    EXPECT_TRUE(mapping->Unmap().ok());
    unmapped = true;
  });
  EXPECT_TRUE(Eventually([&] { return calls_.Of("cuCtxSynchronize") == 1; }));
  EXPECT_FALSE(unmapped);
  EXPECT_EQ(calls_.Of("cuMemUnmap"), 0u);
  machine_.ReleaseStreams();
  other.join();
  EXPECT_EQ(static_cast<const char*>(pinned)[4095], 'a');
  const CudaScope scope(*callers);
  TENURE_CALL_DRIVER(cuMemFreeHost, pinned);
}

TEST_F(CudaMappingTest, APartThatNobodyReadIsUnmappedWithoutWaiting) {
  auto mapping = Reserve(6 * kMiB);
  ASSERT_TRUE(mapping->Append(a_.Export(), 4 * kMiB).ok());
  calls_.Restart();
  ASSERT_TRUE(mapping->Unmap().ok());
  EXPECT_EQ(calls_.Of("cuCtxSynchronize"), 0u);
  EXPECT_EQ(calls_.Of("cuMemUnmap"), 1u);
  EXPECT_EQ(calls_.Of("cuMemAddressFree"), 1u);
}

TEST_F(CudaMappingTest, ACaptureOnlyPutsUnmappingOff) {
  const auto mapping = MapBoth();
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(mapping->Unmap().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(Read(*mapping, 0, 1), "a");
  EXPECT_TRUE(mapping->Unmap().ok());
}

TEST_F(CudaMappingTest, NothingIsUnmappedIfTheWorkIsNotKnownToHaveEnded) {
  auto mapping = MapBoth();
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_LAUNCH_FAILED);
  calls_.Restart();
  const absl::Status status = mapping->Unmap();
  EXPECT_EQ(ErrorReason(status), "CUDA_FAILED") << status;
  EXPECT_TRUE(mapping->complete());
  // It is not tried again behind anybody's back.
  mapping.reset();
  EXPECT_EQ(calls_.Of("cuMemUnmap"), 0u);
  EXPECT_EQ(calls_.Of("cuMemAddressFree"), 0u);
}

TEST_F(CudaMappingTest, WhatTheDriverDoesNotUnmapIsNotSaidToBeUnmapped) {
  for (const char* entry : {"cuMemUnmap", "cuMemAddressFree", "cuCtxPushCurrent"}) {
    const auto mapping = MapBoth();
    machine_.Fail(entry, CUDA_ERROR_UNKNOWN);
    EXPECT_EQ(ErrorReason(mapping->Unmap()), "CUDA_FAILED") << entry;
    EXPECT_NE(mapping->base(), nullptr);
  }
}

TEST_F(CudaMappingTest, WhatIsNoSegmentIsRefusedAndClosed) {
  const auto mapping = Reserve(2 * kMiB);
  const size_t fds = OpenFds();
  UniqueFd file(memfd_create("no segment", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 2 * kMiB), 0);
  calls_.Restart();
  EXPECT_EQ(ErrorReason(mapping->Append(std::move(file), 2 * kMiB)), "CUDA_FAILED");
  EXPECT_EQ(OpenFds(), fds);
  EXPECT_EQ(calls_.Of("cuMemMap"), 0u);
  EXPECT_EQ(mapping->mapped_bytes(), 0u);
}

TEST_F(CudaMappingTest, ASegmentThatCannotBeMappedIsReleased) {
  const auto mapping = Reserve(6 * kMiB);
  calls_.Restart();
  // It has 4 MiB.
  EXPECT_EQ(ErrorReason(mapping->Append(a_.Export(), 2 * kMiB)), "CUDA_FAILED");
  EXPECT_EQ(calls_.Of("cuMemImportFromShareableHandle"), 1u);
  EXPECT_EQ(calls_.Of("cuMemRelease"), 1u);
  EXPECT_EQ(mapping->mapped_bytes(), 0u);
}

TEST_F(CudaMappingTest, RefusesSizesThatCannotBe) {
  EXPECT_EQ(ErrorReason(CudaMapping::Reserve(device_, 0).status()), "PROTOCOL");
  EXPECT_EQ(ErrorReason(CudaMapping::Reserve(device_, UINT64_MAX).status()), "PROTOCOL");
  EXPECT_EQ(ErrorReason(CudaMapping::Reserve(device_, 2 * kMiB + 4096).status()), "PROTOCOL");
  const auto mapping = Reserve(2 * kMiB);
  EXPECT_EQ(ErrorReason(mapping->Append(a_.Export(), 4 * kMiB)), "PROTOCOL");
  EXPECT_EQ(ErrorReason(mapping->Append(b_.Export(), 0)), "PROTOCOL");
  EXPECT_EQ(ErrorReason(mapping->Append(b_.Export(), 4096)), "PROTOCOL");
}

TEST_F(CudaMappingTest, AddressesThatAreNotToBeHadAreExhausted) {
  machine_.Fail("cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY);
  const absl::Status status = CudaMapping::Reserve(device_, 2 * kMiB).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(CudaMappingTest, ReadingNeedsNoContextOfTheThreadAndLeavesNone) {
  const auto mapping = MapBoth();
  std::thread([&] {
    EXPECT_EQ(Read(*mapping, 0, 1), "a");
    CUcontext current = device_->context();
    TENURE_CALL_DRIVER(cuCtxGetCurrent, &current);
    EXPECT_EQ(current, nullptr);
  }).join();
}

}  // namespace
}  // namespace tenure::client
