// Looking up entry points by name and version.

#include <string_view>

#include "tests/support/emulated_driver/cuda_driver.h"

namespace tenure::emulated {
namespace {

struct Symbol {
  std::string_view name;
  int since;
  void* function;
};

// By the name without version, as the real driver lists them.
#define TENURE_SYMBOL(name, since) {"cu" #name, since, reinterpret_cast<void*>(&cu##name)},
const Symbol kSymbols[] = {TENURE_CUDA_ENTRY_POINTS(TENURE_SYMBOL)};
#undef TENURE_SYMBOL

}  // namespace

// The first versions, which the header hides, for programs that ask for an older CUDA.
#undef cuGetProcAddress
#undef cuDeviceGetUuid
#undef cuEventElapsedTime
extern "C" {
CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                  cuuint64_t flags);
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice dev);
CUresult CUDAAPI cuEventElapsedTime(float* pMilliseconds, CUevent hStart, CUevent hEnd);
}

namespace {

const Symbol kFirstSymbols[] = {
    {"cuGetProcAddress", 11030, reinterpret_cast<void*>(&cuGetProcAddress)},
    {"cuDeviceGetUuid", 9020, reinterpret_cast<void*>(&cuDeviceGetUuid)},
    {"cuEventElapsedTime", 2000, reinterpret_cast<void*>(&cuEventElapsedTime)},
};

struct Found {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

Found Find(std::string_view name, int version) {
  Found found;
  const auto look_at = [&](const Symbol& symbol) {
    if (symbol.name != name || found.function != nullptr) return;
    const bool offered = symbol.since <= version;
    if (offered) found.function = symbol.function;
    found.status =
        offered ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  };
  for (const Symbol& symbol : kSymbols) look_at(symbol);
  for (const Symbol& symbol : kFirstSymbols) look_at(symbol);
  return found;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGetProcAddress_v2(const char* symbol, void** pfn, int cudaVersion,
                                     cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* symbolStatus) {
  return CallAnyTime(EntryPoint::kGetProcAddress, [&](Driver& driver) {
    constexpr cuuint64_t kKnown =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == nullptr || pfn == nullptr || (flags & ~kKnown) != 0 ||
        cudaVersion > driver.driver_version()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const Found found = Find(symbol, cudaVersion);
    *pfn = found.function;
    if (symbolStatus != nullptr) *symbolStatus = found.status;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                  cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr);
}

}  // extern "C"

}  // namespace tenure::emulated
