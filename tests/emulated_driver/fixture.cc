#include "tests/emulated_driver/fixture.h"

namespace tenure::emulated {
namespace {

MachineConfig TwoSmallGpus() {
  MachineConfig machine;
  machine.context_cost = Bytes(0);
  machine.gpus.resize(2);
  for (GpuConfig& gpu : machine.gpus) gpu.memory = MiB(64);
  return machine;
}

}  // namespace

EmulatedGpu& ThisMachine() {
  static const TempDir temp;
  static EmulatedGpu machine(temp / "machine", TwoSmallGpus());
  return machine;
}

CUmemAllocationProp Properties(int device, bool exportable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  properties.requestedHandleTypes =
      exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}

CUmemGenericAllocationHandle Create(int device, size_t size, bool exportable) {
  const CUmemAllocationProp properties = Properties(device, exportable);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemCreate(&handle, size, &properties, 0), CUDA_SUCCESS);
  return handle;
}

CUresult SetAccess(CUdeviceptr at, size_t size, int device, CUmemAccess_flags flags) {
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
  return cuMemSetAccess(at, size, &access, 1);
}

MappedPieces::MappedPieces(size_t count, int device) {
  EXPECT_EQ(cuMemAddressReserve(&at_, count * kPiece, 0, 0, 0), CUDA_SUCCESS);
  for (size_t i = 0; i < count; ++i) {
    handles_.push_back(Create(device));
    EXPECT_EQ(cuMemMap(at_ + i * kPiece, kPiece, 0, handles_.back(), 0), CUDA_SUCCESS);
  }
  EXPECT_EQ(SetAccess(at_, size(), device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), CUDA_SUCCESS);
}

MappedPieces::~MappedPieces() {
  EXPECT_EQ(cuMemUnmap(at_, size()), CUDA_SUCCESS);
  for (const auto handle : handles_) EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at_, size()), CUDA_SUCCESS);
}

DriverTest::DriverTest() {
  ThisMachine().UseInThisProcess();
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
}

DriverTest::~DriverTest() {
  ThisMachine().ClearFaults();
  ThisMachine().ReleaseStreams();
  EXPECT_EQ(ThisMachine().LiveBytes(0), Bytes(0)) << "a test left memory behind";
  EXPECT_EQ(ThisMachine().LiveBytes(1), Bytes(0)) << "a test left memory behind";
}

ContextTest::ContextTest() {
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
}

ContextTest::~ContextTest() {
  EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

unsigned char ByteAt(CUdeviceptr at) {
  unsigned char byte = 0;
  EXPECT_EQ(cuMemcpyDtoH(&byte, at, 1), CUDA_SUCCESS);
  return byte;
}

}  // namespace tenure::emulated
