// What devices are, which of them a process sees, and the contexts current to a thread.

#include <string>
#include <thread>
#include <unistd.h>

#include "tests/emulated_driver/fixture.h"
#include "tests/emulated_driver/peer.h"

namespace tenure::emulated {
namespace {

MachineConfig ThreeGpus() {
  MachineConfig machine;
  machine.gpus.resize(3);
  machine.gpus[0].uuid = "GPU-aaaa0000-0000-0000-0000-000000000010";
  machine.gpus[1].uuid = "GPU-aabb0000-0000-0000-0000-000000000011";
  machine.gpus[2].uuid = "GPU-cccc0000-0000-0000-0000-000000000012";
  return machine;
}

// The last bytes of the uuids that a process sees with this CUDA_VISIBLE_DEVICES, by ordinal.
std::vector<uint64_t> SeenWith(const std::string& variable) {
  TempDir temp;
  const EmulatedGpu machine(temp / "machine", ThreeGpus());
  Peer peer(machine, {"CUDA_VISIBLE_DEVICES=" + variable});
  if (peer.Do("init").result == CUDA_ERROR_NO_DEVICE) return {};
  std::vector<uint64_t> seen;
  const uint64_t count = peer.Do("count").values.at(0);
  for (uint64_t i = 0; i < count; ++i) {
    seen.push_back(peer.Do("uuid " + std::to_string(i)).values.at(0));
  }
  return seen;
}

TEST(VisibleDevicesTest, OrdersDevicesAsTheVariableNamesThem) {
  EXPECT_EQ(SeenWith("2,0"), (std::vector<uint64_t>{0x12, 0x10}));
  EXPECT_EQ(SeenWith("GPU-cc,GPU-aabb"), (std::vector<uint64_t>{0x12, 0x11}));
}

TEST(VisibleDevicesTest, StopsAtTheFirstNameThatFitsNone) {
  EXPECT_EQ(SeenWith("1,7,0"), (std::vector<uint64_t>{0x11}));
  EXPECT_EQ(SeenWith("1,GPU-dd,0"), (std::vector<uint64_t>{0x11}));
  EXPECT_EQ(SeenWith("GPU-aa"), (std::vector<uint64_t>{})) << "it fits two";
}

TEST(VisibleDevicesTest, ShowsNothingForAnEmptyVariableOrADoubleName) {
  EXPECT_EQ(SeenWith(""), (std::vector<uint64_t>{}));
  EXPECT_EQ(SeenWith("0,0"), (std::vector<uint64_t>{}));
  TempDir temp;
  const EmulatedGpu machine(temp / "machine");
  Peer peer(machine, {"CUDA_VISIBLE_DEVICES="});
  EXPECT_EQ(peer.Do("init").result, CUDA_ERROR_NO_DEVICE);
}

TEST(MigTest, TellsTheInstancesUuidAndToOldProgramsTheGpus) {
  TempDir temp;
  MachineConfig config;
  config.gpus[0].uuid = "MIG-aaaa0000-0000-0000-0000-000000000021";
  config.gpus[0].parent_uuid = "GPU-aaaa0000-0000-0000-0000-000000000020";
  const EmulatedGpu machine(temp / "machine", config);
  Peer peer(machine, {"CUDA_VISIBLE_DEVICES=MIG-aaaa"});
  ASSERT_EQ(peer.Do("init").result, CUDA_SUCCESS);
  EXPECT_EQ(peer.Do("uuid 0").values.at(0), 0x21U);
  EXPECT_EQ(peer.Do("old_uuid 0").values.at(0), 0x20U);
}

using DeviceTest = DriverTest;

int Attribute(CUdevice_attribute attribute) {
  int value = -1;
  EXPECT_EQ(cuDeviceGetAttribute(&value, attribute, 1), CUDA_SUCCESS);
  return value;
}

TEST_F(DeviceTest, TellsWhatTheConfigurationSays) {
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED), 1);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED), 1);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED), 1);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_INTEGRATED), 0);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR), 9);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), 132);
  EXPECT_EQ(Attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID), 2);
  size_t bytes = 0;
  EXPECT_EQ(cuDeviceTotalMem(&bytes, 1), CUDA_SUCCESS);
  EXPECT_EQ(bytes, MiB(64).count());
}

TEST_F(DeviceTest, CutsTheNameToTheRoomForIt) {
  char name[8];
  EXPECT_EQ(cuDeviceGetName(name, sizeof(name), 0), CUDA_SUCCESS);
  EXPECT_STREQ(name, "Tenure ");
  EXPECT_EQ(cuDeviceGetName(name, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DeviceTest, RefusesOrdinalsThatAreNone) {
  CUdevice device = 0;
  int value = 0;
  EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
}

using PrimaryContextTest = DriverTest;

TEST_F(PrimaryContextTest, IsActiveFromTheFirstRetainToTheLastRelease) {
  unsigned flags = 0;
  int active = 1;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 0);
  CUcontext first = nullptr;
  CUcontext second = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&first, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&second, 0), CUDA_SUCCESS);
  EXPECT_EQ(first, second);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(PrimaryContextTest, IsOfNoUseOnceItWasReleased) {
  CUcontext context = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUdeviceptr at = 0;
  CUevent event = nullptr;
  ASSERT_EQ(cuMemAlloc(&at, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&at, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(ThisMachine().LiveBytes(0), Bytes(0)) << "what lived in it is gone";
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

using CurrentContextTest = ContextTest;

TEST_F(CurrentContextTest, IsEachThreadsOwn) {
  CUcontext current = context_;
  CUresult info = CUDA_SUCCESS;
  std::thread([&] {
    EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    size_t bytes = 0;
    info = cuMemGetInfo(&bytes, &bytes);
  }).join();
  EXPECT_EQ(current, nullptr);
  EXPECT_EQ(info, CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(CurrentContextTest, IsNeededByCopiesStreamsEventsAndFreeMemory) {
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  unsigned char byte = 0;
  size_t bytes = 0;
  CUdevice device = 0;
  CUdeviceptr at = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  void* host = nullptr;
  EXPECT_EQ(cuMemcpyDtoH(&byte, 1, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemcpyHtoDAsync(1, &byte, 1, nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemsetD8(1, 0, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemGetInfo(&bytes, &bytes), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxPopCurrent(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemAlloc(&at, 1), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuMemHostAlloc(&host, 1, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuEventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(CurrentContextTest, IsNotNeededByVirtualMemory) {
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  const MappedPieces pieces(1);
  int fd = -1;
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, pieces.handle(0),
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  close(fd);
}

TEST_F(CurrentContextTest, IsTheTopOfAStack) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  CUdevice device = -1;
  EXPECT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 1);
  CUcontext popped = nullptr;
  EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, other);
  EXPECT_EQ(cuCtxGetDevice(&device), CUDA_SUCCESS);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(&device)), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

TEST_F(DeviceTest, SwapsTheCaptureModeOfTheThread) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuThreadExchangeStreamCaptureMode(nullptr), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tenure::emulated
