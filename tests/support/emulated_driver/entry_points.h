#pragma once

// The entry points that the emulated driver offers, each with the CUDA version that brought it in
// its present form. The names lack their `cu`, since cuda.h renames some of the full ones.

#include <cstddef>
#include <iterator>
#include <string_view>

#define TENURE_CUDA_ENTRY_POINTS(X)              \
  X(Init, 2000)                                  \
  X(DriverGetVersion, 2020)                      \
  X(GetErrorName, 6000)                          \
  X(GetErrorString, 6000)                        \
  X(GetProcAddress, 12000)                       \
  X(DeviceGetCount, 2000)                        \
  X(DeviceGet, 2000)                             \
  X(DeviceGetName, 2000)                         \
  X(DeviceGetUuid, 11040)                        \
  X(DeviceTotalMem, 3020)                        \
  X(DeviceGetAttribute, 2000)                    \
  X(DevicePrimaryCtxRetain, 7000)                \
  X(DevicePrimaryCtxRelease, 11000)              \
  X(DevicePrimaryCtxGetState, 7000)              \
  X(CtxSetCurrent, 4000)                         \
  X(CtxGetCurrent, 4000)                         \
  X(CtxPushCurrent, 4000)                        \
  X(CtxPopCurrent, 4000)                         \
  X(CtxGetDevice, 2000)                          \
  X(CtxSynchronize, 2000)                        \
  X(MemGetInfo, 3020)                            \
  X(MemGetAllocationGranularity, 10020)          \
  X(MemCreate, 10020)                            \
  X(MemRelease, 10020)                           \
  X(MemAddressReserve, 10020)                    \
  X(MemAddressFree, 10020)                       \
  X(MemMap, 10020)                               \
  X(MemUnmap, 10020)                             \
  X(MemSetAccess, 10020)                         \
  X(MemGetAccess, 10020)                         \
  X(MemExportToShareableHandle, 10020)           \
  X(MemImportFromShareableHandle, 10020)         \
  X(MemRetainAllocationHandle, 11000)            \
  X(MemGetAllocationPropertiesFromHandle, 10020) \
  X(MemAlloc, 3020)                              \
  X(MemFree, 3020)                               \
  X(MemHostAlloc, 2020)                          \
  X(MemFreeHost, 2000)                           \
  X(MemHostRegister, 6050)                       \
  X(MemHostUnregister, 4000)                     \
  X(Memcpy, 4000)                                \
  X(MemcpyAsync, 4000)                           \
  X(MemcpyHtoD, 3020)                            \
  X(MemcpyDtoH, 3020)                            \
  X(MemcpyDtoD, 3020)                            \
  X(MemcpyHtoDAsync, 3020)                       \
  X(MemcpyDtoHAsync, 3020)                       \
  X(MemcpyDtoDAsync, 3020)                       \
  X(MemsetD8, 3020)                              \
  X(MemsetD8Async, 3020)                         \
  X(StreamCreate, 2000)                          \
  X(StreamCreateWithPriority, 5050)              \
  X(StreamDestroy, 4000)                         \
  X(StreamSynchronize, 2000)                     \
  X(StreamQuery, 2000)                           \
  X(StreamWaitEvent, 3020)                       \
  X(EventCreate, 2000)                           \
  X(EventDestroy, 4000)                          \
  X(EventRecord, 2000)                           \
  X(EventQuery, 2000)                            \
  X(EventSynchronize, 2000)                      \
  X(EventElapsedTime, 12080)                     \
  X(ThreadExchangeStreamCaptureMode, 10010)      \
  X(PointerGetAttribute, 4000)

namespace tenure::emulated {

#define TENURE_ENTRY_POINT(name, since) k##name,
enum class EntryPoint : size_t { TENURE_CUDA_ENTRY_POINTS(TENURE_ENTRY_POINT) };
#undef TENURE_ENTRY_POINT

#define TENURE_ENTRY_POINT(name, since) "cu" #name,
inline constexpr std::string_view kEntryPointNames[] = {
    TENURE_CUDA_ENTRY_POINTS(TENURE_ENTRY_POINT)};
#undef TENURE_ENTRY_POINT

inline constexpr size_t kEntryPointCount = std::size(kEntryPointNames);

}  // namespace tenure::emulated
