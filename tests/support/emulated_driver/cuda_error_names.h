#pragma once

#include "tests/support/emulated_driver/cuda_types.h"

namespace tenure::emulated {

struct ErrorName {
  CUresult code;
  const char* name;
  const char* text;
};

// Null for a code that CUDA does not know.
const ErrorName* FindErrorName(CUresult code);

}  // namespace tenure::emulated
