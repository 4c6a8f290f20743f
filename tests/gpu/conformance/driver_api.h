#pragma once

#include <cuda.h>
#include <string>

#include "tests/support/emulated_driver/entry_points.h"

namespace tenure::conformance {

// The driver's entry points, from the `libcuda.so.1` that the dynamic linker finds: NVIDIA's or the
// emulated one. Stays loaded.
struct DriverApi {
#define TENURE_MEMBER(name, since) decltype(&::cu##name) name = nullptr;
  TENURE_CUDA_ENTRY_POINTS(TENURE_MEMBER)
#undef TENURE_MEMBER
};

// What is missing, the library or an entry point of it; empty if nothing is.
std::string LoadDriver(DriverApi& api);

}  // namespace tenure::conformance
