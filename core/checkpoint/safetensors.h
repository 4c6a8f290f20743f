#pragma once

#include <string_view>
#include <vector>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/layout/tensor_spec.h"

namespace tenure {

inline constexpr Bytes kMaxHeader = Bytes(100'000'000);

// One entry of a safetensors header; `range` counts from the start of the payload.
struct HeaderEntry {
  TensorSpec spec;
  Range range;
};

// Parses the JSON text of a safetensors header, and gives the entries by where they lie. Source:
// the format section of the safetensors README; the reference is safetensors 0.8. As there, other
// fields of an entry are ignored and metadata may be null; otherwise it must map strings to
// strings. Stricter than there: the text begins with '{', no key is there twice, no name is longer
// than 4096 bytes and no shape than 256 extents, so that a list of tensors can be sent in pieces;
// an entry is an object. The tensors must cover the payload of `payload` bytes without hole or
// overlap. Memory is proportional to the text. Errors as in ParseTensors; messages name the tensor,
// not the file.
StatusOr<std::vector<HeaderEntry>> ParseSafetensorsHeader(std::string_view json, Bytes payload);

}  // namespace tenure
