#include "tests/core/device/cuda_machine.h"

#include <cstdlib>
#include <dlfcn.h>

#include "core/base/check.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

// Calls what the backend does not need, by the names that the header gives it.
template <typename Entry>
Entry Symbol(const char* name, Entry) {
  void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  TENURE_CHECK(library != nullptr);
  auto* const entry = reinterpret_cast<Entry>(::dlsym(library, name));
  TENURE_CHECK(entry != nullptr);
  return entry;
}

CUcontext FirstContext() {
  static const CUcontext context = [] {
    CUdevice device = 0;
    TENURE_CHECK(RawDriver().cuDeviceGet(&device, 0) == CUDA_SUCCESS);
    CUcontext retained = nullptr;
    TENURE_CHECK(RawDriver().cuDevicePrimaryCtxRetain(&retained, device) == CUDA_SUCCESS);
    return retained;
  }();
  return context;
}

}  // namespace

EmulatedGpu* EmulatedMachine() {
  if (std::getenv("TENURE_REAL_GPU") != nullptr) return nullptr;
  // The GPU's memory is memory.
  static const TempDir directory("/dev/shm");
  static EmulatedGpu machine(directory.MakeDir("gpu"));
  static const bool used = [] {
    machine.UseInThisProcess();
    return true;
  }();
  TENURE_CHECK(used);
  return &machine;
}

const CudaDriver& RawDriver() {
  EmulatedMachine();
  static const StatusOr<CudaDriver> driver = OpenCudaDriver();
  TENURE_CHECK(driver.ok());
  return *driver;
}

StatusOr<std::unique_ptr<Device>> MakeFirstGpu(const Clock& clock, CudaDeviceOptions options) {
  EmulatedMachine();
  TENURE_ASSIGN_OR_RETURN(const std::vector<FoundGpu> gpus, FindGpus());
  if (gpus.empty()) return Error(Reason::kDeviceNotFound, "there is no GPU");
  options.uuid = gpus.front().uuid;
  return MakeCudaDevice(options, clock);
}

std::vector<std::byte> ReadThroughImport(int fd, Bytes size) {
  const CudaDriver& driver = RawDriver();
  static const auto import =
      Symbol("cuMemImportFromShareableHandle", &::cuMemImportFromShareableHandle);
  static const auto copy = Symbol("cuMemcpyDtoH_v2", &::cuMemcpyDtoH);
  std::vector<std::byte> bytes(size.count());
  TENURE_CHECK(driver.cuCtxSetCurrent(FirstContext()) == CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  TENURE_CHECK(import(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
  CUdeviceptr base = 0;
  TENURE_CHECK(driver.cuMemAddressReserve(&base, size.count(), 0, 0, 0) == CUDA_SUCCESS);
  TENURE_CHECK(driver.cuMemMap(base, size.count(), 0, handle, 0) == CUDA_SUCCESS);
  TENURE_CHECK(driver.cuMemRelease(handle) == CUDA_SUCCESS);
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  TENURE_CHECK(driver.cuDeviceGet(&access.location.id, 0) == CUDA_SUCCESS);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
  TENURE_CHECK(driver.cuMemSetAccess(base, size.count(), &access, 1) == CUDA_SUCCESS);
  TENURE_CHECK(copy(bytes.data(), base, size.count()) == CUDA_SUCCESS);
  TENURE_CHECK(driver.cuMemUnmap(base, size.count()) == CUDA_SUCCESS);
  TENURE_CHECK(driver.cuMemAddressFree(base, size.count()) == CUDA_SUCCESS);
  return bytes;
}

}  // namespace tenure
