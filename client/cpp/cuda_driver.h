#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cuda.h>
#include <memory>
#include <string>
#include <string_view>

namespace tenure::client {

// What the library calls of NVIDIA's driver.
#define TENURE_CLIENT_CUDA_ENTRY_POINTS(ENTRY) \
  ENTRY(cuInit)                                \
  ENTRY(cuDriverGetVersion)                    \
  ENTRY(cuGetErrorName)                        \
  ENTRY(cuGetErrorString)                      \
  ENTRY(cuDeviceGetCount)                      \
  ENTRY(cuDeviceGet)                           \
  ENTRY(cuDeviceGetUuid_v2)                    \
  ENTRY(cuDeviceGetAttribute)                  \
  ENTRY(cuDevicePrimaryCtxRetain)              \
  ENTRY(cuDevicePrimaryCtxRelease)             \
  ENTRY(cuCtxPushCurrent)                      \
  ENTRY(cuCtxPopCurrent)                       \
  ENTRY(cuCtxSynchronize)                      \
  ENTRY(cuThreadExchangeStreamCaptureMode)     \
  ENTRY(cuMemGetAllocationGranularity)         \
  ENTRY(cuMemAddressReserve)                   \
  ENTRY(cuMemAddressFree)                      \
  ENTRY(cuMemImportFromShareableHandle)        \
  ENTRY(cuMemRelease)                          \
  ENTRY(cuMemMap)                              \
  ENTRY(cuMemUnmap)                            \
  ENTRY(cuMemSetAccess)                        \
  ENTRY(cuMemcpyDtoHAsync)                     \
  ENTRY(cuStreamCreate)                        \
  ENTRY(cuStreamSynchronize)                   \
  ENTRY(cuStreamDestroy)                       \
  ENTRY(cuEventQuery)

// NVIDIA's driver, opened at run time, so that one library serves with and without a GPU. Each
// member is the function of its name; cuda.h says what it does. Never closed, since it leaves
// threads behind. Thread-safe.
struct CudaDriver {
  // Opens and initialises it. FAILED_PRECONDITION with reason CUDA_UNAVAILABLE, in words that name
  // the cause, if there is none, a stub of one, or one that is too old.
  static absl::StatusOr<std::shared_ptr<const CudaDriver>> Open(
      const char* library = "libcuda.so.1");

#define TENURE_CLIENT_CUDA_MEMBER(entry) decltype(&::entry) entry = nullptr;
  TENURE_CLIENT_CUDA_ENTRY_POINTS(TENURE_CLIENT_CUDA_MEMBER)
#undef TENURE_CLIENT_CUDA_MEMBER

  // OK for success. Else CUDA_FAILED, with the driver's own words after `doing`.
  absl::Status Check(CUresult result, std::string_view doing) const;

  // "CUDA_ERROR_OUT_OF_MEMORY"
  std::string NameOf(CUresult result) const;
};

}  // namespace tenure::client
