#include "client/cpp/cuda_driver.h"

#include <dlfcn.h>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

absl::Status Unavailable(const std::string& cause) {
  return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                   "the memory is on a CUDA device, and " + cause);
}

std::string VersionText(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Null if the library does not have it.
template <typename Function>
Function Find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

std::string TooOld(const CudaDriver& driver, const std::string& missing) {
  int version = 0;
  const bool known =
      driver.cuDriverGetVersion != nullptr && driver.cuDriverGetVersion(&version) == CUDA_SUCCESS;
  return "NVIDIA's driver here" + (known ? ", for CUDA " + VersionText(version) + "," : "") +
         " is too old: it has no " + missing;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CudaDriver>> CudaDriver::Open(const char* library) {
  void* const opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) {
    const char* const error = dlerror();
    return Unavailable("NVIDIA's driver is not installed here: " +
                       std::string(error == nullptr ? library : error));
  }
  const auto driver = std::make_shared<CudaDriver>();
  std::string missing;
  // The header renames some entry points to a later version, and so does this.
#define TENURE_CLIENT_CUDA_NAME(entry) #entry
#define TENURE_CLIENT_CUDA_FIND(entry)                                                   \
  driver->entry = Find<decltype(driver->entry)>(opened, TENURE_CLIENT_CUDA_NAME(entry)); \
  if (driver->entry == nullptr && missing.empty()) missing = TENURE_CLIENT_CUDA_NAME(entry);
  TENURE_CLIENT_CUDA_ENTRY_POINTS(TENURE_CLIENT_CUDA_FIND)
#undef TENURE_CLIENT_CUDA_FIND
#undef TENURE_CLIENT_CUDA_NAME
  // A stub has every entry point, but those of its own time only.
  const CUresult initialised = driver->cuInit == nullptr ? CUDA_ERROR_NOT_FOUND : driver->cuInit(0);
  if (initialised == CUDA_ERROR_STUB_LIBRARY) {
    return Unavailable(std::string(library) + " is the CUDA toolkit's stub, not NVIDIA's driver");
  }
  if (!missing.empty()) return Unavailable(TooOld(*driver, missing));
  if (initialised != CUDA_SUCCESS) {
    return Unavailable("NVIDIA's driver does not start: " + driver->NameOf(initialised));
  }
  return std::shared_ptr<const CudaDriver>(driver);
}

absl::Status CudaDriver::Check(CUresult result, std::string_view doing) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const std::string name = NameOf(result);
  std::string message = std::string(doing) + " failed: " + name;
  const char* meaning = nullptr;
  if (cuGetErrorString(result, &meaning) == CUDA_SUCCESS && meaning != nullptr) {
    message += std::string(", ") + meaning;
  }
  return MakeError(result == CUDA_ERROR_OUT_OF_MEMORY ? absl::StatusCode::kResourceExhausted
                                                      : absl::StatusCode::kInternal,
                   kCudaFailed, message, {{"result", name}});
}

std::string CudaDriver::NameOf(CUresult result) const {
  const char* name = nullptr;
  if (cuGetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

}  // namespace tenure::client
