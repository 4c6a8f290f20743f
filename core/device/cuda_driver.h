#pragma once

#include <cuda.h>
#include <string>

#include "core/base/status.h"

namespace tenure {

// What Tenure calls of NVIDIA's driver.
#define TENURE_CALLED_ENTRY_POINTS(ENTRY) \
  ENTRY(cuInit)                           \
  ENTRY(cuDriverGetVersion)               \
  ENTRY(cuGetErrorName)                   \
  ENTRY(cuGetErrorString)                 \
  ENTRY(cuDeviceGetCount)                 \
  ENTRY(cuDeviceGet)                      \
  ENTRY(cuDeviceGetName)                  \
  ENTRY(cuDeviceGetUuid)                  \
  ENTRY(cuDeviceGetAttribute)             \
  ENTRY(cuDeviceTotalMem)                 \
  ENTRY(cuDevicePrimaryCtxRetain)         \
  ENTRY(cuDevicePrimaryCtxRelease)        \
  ENTRY(cuCtxSetCurrent)                  \
  ENTRY(cuMemGetInfo)                     \
  ENTRY(cuMemGetAllocationGranularity)    \
  ENTRY(cuMemAddressReserve)              \
  ENTRY(cuMemAddressFree)                 \
  ENTRY(cuMemCreate)                      \
  ENTRY(cuMemRelease)                     \
  ENTRY(cuMemMap)                         \
  ENTRY(cuMemUnmap)                       \
  ENTRY(cuMemSetAccess)                   \
  ENTRY(cuMemExportToShareableHandle)     \
  ENTRY(cuMemHostAlloc)                   \
  ENTRY(cuMemFreeHost)                    \
  ENTRY(cuMemcpyHtoDAsync)                \
  ENTRY(cuMemcpyDtoDAsync)                \
  ENTRY(cuMemsetD8Async)                  \
  ENTRY(cuStreamCreate)                   \
  ENTRY(cuStreamDestroy)                  \
  ENTRY(cuStreamSynchronize)              \
  ENTRY(cuEventCreate)                    \
  ENTRY(cuEventDestroy)                   \
  ENTRY(cuEventRecord)                    \
  ENTRY(cuEventSynchronize)

// NVIDIA's driver, opened at run time, so that one binary runs with and without a GPU. Each member
// is the function of its name; cuda.h says what it does. Never closed. Thread-safe.
struct CudaDriver {
#define TENURE_CUDA_MEMBER(entry) decltype(&::entry) entry = nullptr;
  TENURE_CALLED_ENTRY_POINTS(TENURE_CUDA_MEMBER)
#undef TENURE_CUDA_MEMBER

  int version = 0;  // 12040: CUDA 12.4

  // "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
  std::string Describe(CUresult result) const;
};

// Opens and initialises the driver. BACKEND, in words that name the cause, if there is none, a stub
// of one, one too old, or one without a device.
StatusOr<CudaDriver> OpenCudaDriver();

// "12.4"
std::string CudaVersionText(int version);

}  // namespace tenure
