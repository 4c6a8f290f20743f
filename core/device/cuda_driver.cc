#include "core/device/cuda_driver.h"

#include <absl/strings/str_cat.h>
#include <dlfcn.h>

namespace tenure {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

Status NoDriver(const std::string& cause) {
  return Error(Reason::kBackend, absl::StrCat("no CUDA devices: ", cause), {{"cause", cause}});
}

}  // namespace

std::string CudaVersionText(int version) {
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

std::string CudaDriver::Describe(CUresult result) const {
  const char* name = nullptr;
  const char* meaning = nullptr;
  if (cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) {
    return absl::StrCat("CUDA error ", static_cast<int>(result));
  }
  const bool known = cuGetErrorString(result, &meaning) == CUDA_SUCCESS && meaning != nullptr;
  return known ? absl::StrCat(name, ": ", meaning) : std::string(name);
}

StatusOr<CudaDriver> OpenCudaDriver() {
  void* const library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const error = ::dlerror();
    return NoDriver(
        absl::StrCat("NVIDIA's driver is not installed: ", error == nullptr ? kLibrary : error));
  }
  CudaDriver driver;
  std::string missing;
  // The header renames some entry points to their newest version, and so does this.
#define TENURE_CUDA_SYMBOL(entry) #entry
#define TENURE_CUDA_LOAD(entry)                                                              \
  driver.entry =                                                                             \
      reinterpret_cast<decltype(driver.entry)>(::dlsym(library, TENURE_CUDA_SYMBOL(entry))); \
  if (driver.entry == nullptr && missing.empty()) missing = TENURE_CUDA_SYMBOL(entry);
  TENURE_CALLED_ENTRY_POINTS(TENURE_CUDA_LOAD)
#undef TENURE_CUDA_LOAD
#undef TENURE_CUDA_SYMBOL
  if (!missing.empty()) {
    return NoDriver(absl::StrCat("NVIDIA's driver is too old: it has no ", missing));
  }
  const CUresult initialised = driver.cuInit(0);
  if (initialised == CUDA_ERROR_STUB_LIBRARY) {
    return NoDriver(absl::StrCat(kLibrary, " is the toolkit's stub, not NVIDIA's driver"));
  }
  if (initialised != CUDA_SUCCESS) {
    return NoDriver(absl::StrCat("cuInit: ", driver.Describe(initialised)));
  }
  int version = 0;
  if (const CUresult asked = driver.cuDriverGetVersion(&version); asked != CUDA_SUCCESS) {
    return NoDriver(absl::StrCat("cuDriverGetVersion: ", driver.Describe(asked)));
  }
  driver.version = version;
  return driver;
}

}  // namespace tenure
