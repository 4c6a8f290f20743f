#include "core/layout/tensor_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenure {
namespace {

using Shape = std::vector<uint64_t>;

StatusOr<Bytes> BytesOf(DType dtype, const Shape& shape) {
  return TensorBytes({.name = "blocks.0.weight", .dtype = dtype, .shape = shape});
}

TEST(TensorBytesTest, MultipliesExtentsByTheElement) {
  EXPECT_EQ(*BytesOf(DType::kF32, {3, 5}), Bytes(60));
  EXPECT_EQ(*BytesOf(DType::kBF16, {1, 1, 7}), Bytes(14));
  EXPECT_EQ(*BytesOf(DType::kC64, {2}), Bytes(16));
}

// Field case 25.
TEST(TensorBytesTest, AnEmptyShapeIsOneElementAndAZeroIsNone) {
  EXPECT_EQ(*BytesOf(DType::kF32, {}), Bytes(4));
  EXPECT_EQ(*BytesOf(DType::kF32, {0}), Bytes(0));
  EXPECT_EQ(*BytesOf(DType::kF32, {2, 0, 3}), Bytes(0));
}

// Field case 28.
TEST(TensorBytesTest, PacksElementsOfFewerThanEightBits) {
  EXPECT_EQ(*BytesOf(DType::kF4, {2, 8}), Bytes(8));
  EXPECT_EQ(*BytesOf(DType::kF6E2M3, {4}), Bytes(3));
  EXPECT_EQ(*BytesOf(DType::kF6E3M2, {2, 8}), Bytes(12));
}

// Field case 28.
TEST(TensorBytesTest, RefusesElementsThatEndWithinAByte) {
  for (const auto& [dtype, shape] : {std::pair(DType::kF4, Shape{3}),
                                     {DType::kF4, {}},
                                     {DType::kF6E2M3, {3}},
                                     {DType::kF6E3M2, {2}}}) {
    const auto bytes = BytesOf(dtype, shape);
    EXPECT_TRUE(HasReason(bytes.status(), Reason::kInvalidCheckpoint)) << DTypeName(dtype);
  }
}

// Field case 24.
TEST(TensorBytesTest, RefusesASizeThatOverflowsAndNamesTheTensor) {
  for (const Shape& shape : {Shape{uint64_t{1} << 63}, Shape{uint64_t{1} << 32, uint64_t{1} << 32},
                             Shape{UINT64_MAX, UINT64_MAX}, Shape{UINT64_MAX, 2}}) {
    const auto bytes = BytesOf(DType::kU8, shape);
    ASSERT_TRUE(HasReason(bytes.status(), Reason::kInvalidCheckpoint));
    EXPECT_THAT(std::string(bytes.status().message()), testing::HasSubstr("blocks.0.weight"));
  }
}

}  // namespace
}  // namespace tenure
