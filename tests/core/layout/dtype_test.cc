#include "core/layout/dtype.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace tenure {
namespace {

struct Row {
  const char* name;
  uint64_t bits;
};

// Field case 28: the dtypes of safetensors 0.8, by their names in a header.
constexpr Row kRows[] = {
    {"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
    {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
    {"I64", 64},        {"U64", 64},
};

TEST(DTypeTest, AllTwentyTwoAreKnownByNameAndSize) {
  std::set<DType> seen;
  for (const Row& row : kRows) {
    const auto dtype = ParseDType(row.name);
    ASSERT_TRUE(dtype.has_value()) << row.name;
    EXPECT_EQ(DTypeName(*dtype), row.name);
    EXPECT_EQ(DTypeBits(*dtype), row.bits) << row.name;
    seen.insert(*dtype);
  }
  EXPECT_EQ(seen.size(), 22u);
}

TEST(DTypeTest, OtherNamesAreNone) {
  for (const char* name : {"", "f32", "F7", "F32 ", " F32", "FLOAT32", "F6", "F8", "C128"}) {
    EXPECT_FALSE(ParseDType(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace tenure
