#include "client/cpp/cuda_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>

#include "tenure/errors.h"
#include "tests/client/cuda_machine.h"

namespace tenure::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

class CudaDriverTest : public ::testing::Test {
 protected:
  ~CudaDriverTest() override { machine_.ClearFaults(); }

  EmulatedGpu& machine_ = Machine();
};

TEST_F(CudaDriverTest, AMachineWithoutADriverIsNamed) {
  const absl::Status status = CudaDriver::Open("libcuda-of-nobody.so.1").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrorReason(status), "CUDA_UNAVAILABLE");
  EXPECT_THAT(Message(status),
              AllOf(HasSubstr("not installed"), HasSubstr("libcuda-of-nobody.so.1")));
}

TEST_F(CudaDriverTest, ADriverThatLacksAnEntryPointIsTooOld) {
  const absl::Status status = CudaDriver::Open("libc.so.6").status();
  EXPECT_EQ(ErrorReason(status), "CUDA_UNAVAILABLE");
  EXPECT_THAT(Message(status), AllOf(HasSubstr("too old"), HasSubstr("cuInit")));
}

TEST_F(CudaDriverTest, AStubIsNamed) {
  machine_.Fail("cuInit", CUDA_ERROR_STUB_LIBRARY);
  const absl::Status status = CudaDriver::Open().status();
  EXPECT_EQ(ErrorReason(status), "CUDA_UNAVAILABLE");
  EXPECT_THAT(Message(status), HasSubstr("stub"));
}

TEST_F(CudaDriverTest, ADriverThatDoesNotStartIsNamedWithItsError) {
  machine_.Fail("cuInit", CUDA_ERROR_NO_DEVICE);
  const absl::Status status = CudaDriver::Open().status();
  EXPECT_EQ(ErrorReason(status), "CUDA_UNAVAILABLE");
  EXPECT_THAT(Message(status), HasSubstr("CUDA_ERROR_NO_DEVICE"));
}

TEST_F(CudaDriverTest, AnErrorCarriesTheDriversNameForIt) {
  const absl::Status status = Driver()->Check(CUDA_ERROR_ECC_UNCORRECTABLE, "copying");
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(ErrorReason(status), "CUDA_FAILED");
  EXPECT_EQ(ErrorValues(status).at("result"), "CUDA_ERROR_ECC_UNCORRECTABLE");
  EXPECT_THAT(Message(status), HasSubstr("copying failed"));
}

// CUDA_VISIBLE_DEVICES counts when the driver is initialised: what looks at it runs in a process of
// its own.
class CudaDeviceTest : public CudaDriverTest {
 protected:
  CudaDeviceTest() { ::testing::GTEST_FLAG(death_test_style) = "threadsafe"; }
  ~CudaDeviceTest() override { unsetenv("CUDA_VISIBLE_DEVICES"); }

  [[noreturn]] static void ExitWithOrdinalOf(size_t gpu) { exit(10 + Device(gpu)->ordinal()); }
  [[noreturn]] static void ExitWithErrorFor(size_t gpu) {
    const absl::Status status = CudaDevice::Open(Driver(), UuidOf(gpu)).status();
    fputs((ErrorReason(status) + " " + Message(status)).c_str(), stderr);
    exit(1);
  }
};

TEST_F(CudaDeviceTest, ADeviceIsFoundByItsUuid) {
  EXPECT_EQ(Device(kFirstGpu)->ordinal(), 0);
  EXPECT_EQ(Device(kSecondGpu)->ordinal(), 1);
  EXPECT_GE(Device(kFirstGpu)->granule_bytes(), uint64_t{2} << 20);
}

TEST_F(CudaDeviceTest, ADeviceIsFoundWhateverItsOrdinal) {
  setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
  EXPECT_EXIT(ExitWithOrdinalOf(kSecondGpu), ::testing::ExitedWithCode(10), "");
  EXPECT_EXIT(ExitWithOrdinalOf(kFirstGpu), ::testing::ExitedWithCode(11), "");
}

TEST_F(CudaDeviceTest, ADeviceThatIsHiddenIsNamedWithThoseThatAreNot) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EXIT(ExitWithErrorFor(kFirstGpu), ::testing::ExitedWithCode(1),
              "CUDA_DEVICE_NOT_FOUND.*" + UuidOf(kFirstGpu) + ".*it sees " +
                  UuidOf(kSecondGpu).substr(4) + "; CUDA_VISIBLE_DEVICES is \"1\"");
}

TEST_F(CudaDeviceTest, ADeviceOfAnotherMachineIsNotFound) {
  for (const std::string uuid : {"GPU-00000000-0000-0000-0000-000000000000", "", "GPU-"}) {
    const absl::Status status = CudaDevice::Open(Driver(), uuid).status();
    EXPECT_EQ(ErrorReason(status), "CUDA_DEVICE_NOT_FOUND");
    EXPECT_EQ(ErrorValues(status).at("uuid"), uuid);
  }
}

TEST_F(CudaDeviceTest, ADeviceWithoutVirtualMemoryIsRefused) {
  const absl::Status status = CudaDevice::Open(Driver(), UuidOf(kGpuWithoutVmm)).status();
  EXPECT_EQ(ErrorReason(status), "CUDA_UNAVAILABLE");
  EXPECT_THAT(Message(status), AllOf(HasSubstr(UuidOf(kGpuWithoutVmm)), HasSubstr("virtual")));
}

TEST_F(CudaDeviceTest, ADeviceWithoutRoomForAContextIsExhausted) {
  const absl::Status status = CudaDevice::Open(Driver(), UuidOf(kTinyGpu)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrorReason(status), "CUDA_FAILED");
  EXPECT_THAT(Message(status), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY"));
}

TEST_F(CudaDeviceTest, TheContextIsLetGo) {
  const Bytes before = machine_.LiveBytes(kFirstGpu);
  {
    const auto device = Device(kFirstGpu);
    EXPECT_GT(machine_.LiveBytes(kFirstGpu), before);
  }
  EXPECT_EQ(machine_.LiveBytes(kFirstGpu), before);
  machine_.Fail("cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_FALSE(CudaDevice::Open(Driver(), UuidOf(kFirstGpu)).ok());
  EXPECT_EQ(machine_.LiveBytes(kFirstGpu), before);
}

TEST_F(CudaDeviceTest, AScopeLeavesTheThreadAsItWas) {
  const auto ours = Device(kFirstGpu);
  const auto callers = Device(kSecondGpu);
  TENURE_CALL_DRIVER(cuCtxSetCurrent, callers->context());
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
  TENURE_CALL_DRIVER(cuThreadExchangeStreamCaptureMode, &mode);
  {
    const CudaScope scope(*ours);
    ASSERT_TRUE(scope.status().ok());
    CUcontext current = nullptr;
    TENURE_CALL_DRIVER(cuCtxGetCurrent, &current);
    EXPECT_EQ(current, ours->context());
    CUstreamCaptureMode inside = CU_STREAM_CAPTURE_MODE_RELAXED;
    TENURE_CALL_DRIVER(cuThreadExchangeStreamCaptureMode, &inside);
    EXPECT_EQ(inside, CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  CUcontext current = nullptr;
  TENURE_CALL_DRIVER(cuCtxGetCurrent, &current);
  EXPECT_EQ(current, callers->context());
  TENURE_CALL_DRIVER(cuThreadExchangeStreamCaptureMode, &mode);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  TENURE_CALL_DRIVER(cuCtxSetCurrent, CUcontext{nullptr});
}

}  // namespace
}  // namespace tenure::client
