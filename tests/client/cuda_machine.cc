#include "tests/client/cuda_machine.h"

#include <dlfcn.h>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

emulated::MachineConfig Gpus() {
  emulated::MachineConfig machine;
  machine.gpus.resize(4);
  for (size_t i = 0; i < machine.gpus.size(); ++i) machine.gpus[i].uuid = UuidOf(i);
  machine.gpus[kGpuWithoutVmm].vmm = false;
  machine.gpus[kTinyGpu].memory = MiB(8);
  return machine;
}

EmulatedGpu MakeMachine() {
  static const TempDir folder;
  return EmulatedGpu(folder / "gpu", Gpus());
}

}  // namespace

std::string UuidOf(size_t gpu) {
  return "GPU-0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f" + std::to_string(gpu);
}

EmulatedGpu& Machine() {
  static EmulatedGpu machine = MakeMachine();
  static const bool used = [] {
    machine.UseInThisProcess();
    return true;
  }();
  static_cast<void>(used);
  return machine;
}

std::shared_ptr<const CudaDriver> Driver() {
  Machine();
  absl::StatusOr<std::shared_ptr<const CudaDriver>> driver = CudaDriver::Open();
  if (!driver.ok()) throw std::runtime_error(driver.status().ToString());
  return *std::move(driver);
}

std::shared_ptr<CudaDevice> Device(size_t gpu) {
  absl::StatusOr<std::shared_ptr<CudaDevice>> device = CudaDevice::Open(Driver(), UuidOf(gpu));
  if (!device.ok()) throw std::runtime_error(device.status().ToString());
  return *std::move(device);
}

void* FindInDriver(const char* name) {
  void* const found = dlsym(dlopen("libcuda.so.1", RTLD_NOW), name);
  if (found == nullptr) throw std::runtime_error(std::string("no ") + name);
  return found;
}

void ExpectSuccess(const char* name, CUresult result) {
  if (result == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(name) + ": " + Driver()->NameOf(result));
}

CudaSegment::CudaSegment(const std::shared_ptr<CudaDevice>& device, uint64_t bytes,
                         unsigned char fill) {
  const CudaScope scope(*device);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->ordinal()};
  TENURE_CALL_DRIVER(cuMemCreate, &handle_, bytes, &properties, 0ULL);
  CUdeviceptr at = 0;
  const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  TENURE_CALL_DRIVER(cuMemAddressReserve, &at, bytes, size_t{0}, CUdeviceptr{0}, 0ULL);
  TENURE_CALL_DRIVER(cuMemMap, at, bytes, size_t{0}, handle_, 0ULL);
  TENURE_CALL_DRIVER(cuMemSetAccess, at, bytes, &access, size_t{1});
  TENURE_CALL_DRIVER(cuMemsetD8, at, fill, bytes);
  TENURE_CALL_DRIVER(cuMemUnmap, at, bytes);
  TENURE_CALL_DRIVER(cuMemAddressFree, at, bytes);
}

CudaSegment::~CudaSegment() { TENURE_CALL_DRIVER(cuMemRelease, handle_); }

UniqueFd CudaSegment::Export() const {
  int fd = -1;
  TENURE_CALL_DRIVER(cuMemExportToShareableHandle, static_cast<void*>(&fd), handle_,
                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0ULL);
  return UniqueFd(fd);
}

size_t OpenFds() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

}  // namespace tenure::client
