// The entry points that need no device: initialisation, versions, names of errors, and looking up
// entry points.

#include <algorithm>
#include <string_view>

#include "tests/support/emulated_driver/cuda_driver.h"
#include "tests/support/emulated_driver/cuda_error_names.h"

namespace tenure::emulated {
namespace {

struct Symbol {
  std::string_view name;
  int since;
  void* function;
};

// By the name without version, as the real one lists them.
#define TENURE_SYMBOL(name, since) {"cu" #name, since, reinterpret_cast<void*>(&cu##name)},
const Symbol kSymbols[] = {TENURE_CUDA_ENTRY_POINTS(TENURE_SYMBOL)};
#undef TENURE_SYMBOL

CUresult Find(std::string_view name, int version, void** function,
              CUdriverProcAddressQueryResult* status) {
  const auto symbol = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                   [&](const Symbol& each) { return each.name == name; });
  const bool found = symbol != std::end(kSymbols);
  const bool old_enough = found && symbol->since <= version;
  *function = old_enough ? symbol->function : nullptr;
  if (status != nullptr) {
    *status = old_enough ? CU_GET_PROC_ADDRESS_SUCCESS
              : found    ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                         : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}

}  // namespace

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

CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* symbolStatus) {
  return CallAnyTime(EntryPoint::kGetProcAddress, [&](Driver& driver) {
    constexpr cuuint64_t kKnown =
        CU_GET_PROC_ADDRESS_LEGACY_STREAM | CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
    if (symbol == nullptr || pfn == nullptr || (flags & ~kKnown) != 0 ||
        cudaVersion > driver.driver_version()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return Find(symbol, cudaVersion, pfn, symbolStatus);
  });
}

// The first versions, of programs that were built with an older header.
#undef cuGetProcAddress
CUresult CUDAAPI cuGetProcAddress(const char* symbol, void** pfn, int cudaVersion,
                                  cuuint64_t flags) {
  return cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, nullptr);
}

}  // extern "C"

}  // namespace tenure::emulated
