#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/layout/dtype.h"

namespace tenure {

// Name, element type and shape of one tensor. An empty shape is one element; a zero in it is none.
struct TensorSpec {
  std::string name;
  DType dtype = DType::kU8;
  std::vector<uint64_t> shape;
  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

// The bytes of the packed elements. INVALID_CHECKPOINT, naming the tensor, if the count of elements
// or of bits overflows 64 bits or the elements do not end at a byte boundary.
StatusOr<Bytes> TensorBytes(const TensorSpec& spec);

}  // namespace tenure
