#include "core/layout/dtype.h"

#include <array>

#include "core/base/check.h"

namespace tenure {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  uint64_t bits;
};

constexpr std::array<Entry, 22> kEntries = {{
    {DType::kBool, "BOOL", 8},
    {DType::kF4, "F4", 4},
    {DType::kF6E2M3, "F6_E2M3", 6},
    {DType::kF6E3M2, "F6_E3M2", 6},
    {DType::kU8, "U8", 8},
    {DType::kI8, "I8", 8},
    {DType::kF8E5M2, "F8_E5M2", 8},
    {DType::kF8E4M3, "F8_E4M3", 8},
    {DType::kF8E8M0, "F8_E8M0", 8},
    {DType::kF8E4M3FNUZ, "F8_E4M3FNUZ", 8},
    {DType::kF8E5M2FNUZ, "F8_E5M2FNUZ", 8},
    {DType::kI16, "I16", 16},
    {DType::kU16, "U16", 16},
    {DType::kF16, "F16", 16},
    {DType::kBF16, "BF16", 16},
    {DType::kI32, "I32", 32},
    {DType::kU32, "U32", 32},
    {DType::kF32, "F32", 32},
    {DType::kC64, "C64", 64},
    {DType::kF64, "F64", 64},
    {DType::kI64, "I64", 64},
    {DType::kU64, "U64", 64},
}};

constexpr bool InEnumOrder() {
  for (size_t i = 0; i < kEntries.size(); ++i) {
    if (static_cast<size_t>(kEntries[i].dtype) != i) return false;
  }
  return true;
}
static_assert(InEnumOrder());

const Entry& EntryOf(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  TENURE_CHECK(index < kEntries.size());
  return kEntries[index];
}

}  // namespace

std::string_view DTypeName(DType dtype) { return EntryOf(dtype).name; }

std::optional<DType> ParseDType(std::string_view name) {
  for (const Entry& entry : kEntries) {
    if (entry.name == name) return entry.dtype;
  }
  return std::nullopt;
}

uint64_t DTypeBits(DType dtype) { return EntryOf(dtype).bits; }

}  // namespace tenure
