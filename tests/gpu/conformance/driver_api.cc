#include "tests/gpu/conformance/driver_api.h"

#include <dlfcn.h>

// The name that the header maps to, as the library exports it.
#define TENURE_TEXT(name) #name
#define TENURE_EXPORTED(name) TENURE_TEXT(name)

namespace tenure::conformance {

std::string LoadDriver(DriverApi& api) {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) return dlerror();
  const auto load = [&](auto& member, const char* exported, const char* plain) {
    void* symbol = dlsym(library, exported);
    // Of a driver older than the header: what was exported first.
    if (symbol == nullptr) symbol = dlsym(library, plain);
    member = reinterpret_cast<std::remove_reference_t<decltype(member)>>(symbol);
    return symbol != nullptr;
  };
#define TENURE_LOAD(name, since) \
  if (!load(api.name, TENURE_EXPORTED(cu##name), "cu" #name)) return "no cu" #name;
  TENURE_CUDA_ENTRY_POINTS(TENURE_LOAD)
#undef TENURE_LOAD
  return "";
}

}  // namespace tenure::conformance
