// The entry points that need no device: initialisation, the version, and names of errors.

#include "tests/support/emulated_driver/cuda_driver.h"
#include "tests/support/emulated_driver/cuda_error_names.h"

namespace tenure::emulated {

extern "C" {

CUresult CUDAAPI cuInit(unsigned int Flags) {
  return CallAnyTime(EntryPoint::kInit, [&](Driver& driver) { return driver.Initialize(Flags); });
}

CUresult CUDAAPI cuDriverGetVersion(int* driverVersion) {
  return CallAnyTime(EntryPoint::kDriverGetVersion, [&](Driver& driver) {
    if (driverVersion == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = driver.driver_version();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** pStr) {
  return CallAnyTime(EntryPoint::kGetErrorName, [&](Driver&) {
    if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ErrorName* const found = FindErrorName(error);
    *pStr = found == nullptr ? nullptr : found->name;
    return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** pStr) {
  return CallAnyTime(EntryPoint::kGetErrorString, [&](Driver&) {
    if (pStr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ErrorName* const found = FindErrorName(error);
    *pStr = found == nullptr ? nullptr : found->text;
    return found == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace tenure::emulated
