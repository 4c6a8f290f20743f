#include "core/layout/tensor_spec.h"

#include <absl/strings/str_cat.h>

namespace tenure {

StatusOr<Bytes> TensorBytes(const TensorSpec& spec) {
  uint64_t bits = DTypeBits(spec.dtype);
  for (const uint64_t extent : spec.shape) {
    if (__builtin_mul_overflow(bits, extent, &bits)) {
      return Error(Reason::kInvalidCheckpoint,
                   absl::StrCat("size of tensor overflows 64 bits: ", spec.name),
                   {{"tensor", spec.name}});
    }
  }
  if (bits % 8 != 0) {
    return Error(Reason::kInvalidCheckpoint,
                 absl::StrCat("elements of tensor do not end at a byte boundary: ", spec.name),
                 {{"tensor", spec.name}});
  }
  return Bytes(bits / 8);
}

}  // namespace tenure
