#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tenure {

// The element types of safetensors 0.8, all 22.
enum class DType : uint8_t {
  kBool,
  kF4,
  kF6E2M3,
  kF6E3M2,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kF8E8M0,
  kF8E4M3FNUZ,
  kF8E5M2FNUZ,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kC64,
  kF64,
  kI64,
  kU64,
};

// The name in a safetensors header: "F32", "F8_E4M3", ...
std::string_view DTypeName(DType dtype);

// nullopt for a name that is none of them. Names are case-sensitive.
std::optional<DType> ParseDType(std::string_view name);

// Bits of one element: 4 to 64. Elements of fewer than 8 bits are packed.
uint64_t DTypeBits(DType dtype);

}  // namespace tenure
