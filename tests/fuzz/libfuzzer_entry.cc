#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  tenure::AcceptsInput({reinterpret_cast<const char*>(bytes), size});
  return 0;
}
