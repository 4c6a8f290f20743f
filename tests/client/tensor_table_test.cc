#include "client/cpp/tensor_table.h"

#include <gtest/gtest.h>
#include <string>

#include "tenure/errors.h"

namespace tenure::client {
namespace {

TEST(TensorTableTest, FindsEveryTensorByName) {
  std::vector<TensorPlace> places;
  for (uint64_t i = 0; i < 1000; ++i) {
    places.push_back({"layer." + std::to_string(1000 + i), "F32", {4, 16}, i * 256, 256});
  }
  const std::shared_ptr<const TensorTable> table = *TensorTable::Build(places);
  ASSERT_EQ(table->size(), 1000u);
  for (const TensorPlace& place : places) {
    const TensorPlace* const found = table->Find(place.name);
    ASSERT_NE(found, nullptr) << place.name;
    EXPECT_EQ(found->offset, place.offset);
  }
  EXPECT_EQ(table->Find("layer."), nullptr);
  EXPECT_EQ(table->extent_bytes(), 256'000u);
}

TEST(TensorTableTest, MayBeEmpty) {
  const std::shared_ptr<const TensorTable> table = *TensorTable::Build({});
  EXPECT_EQ(table->size(), 0u);
  EXPECT_EQ(table->extent_bytes(), 0u);
}

TEST(TensorTableTest, RefusesNamesThatDoNotAscend) {
  EXPECT_EQ(
      ErrorReason(TensorTable::Build({{"b", "F32", {}, 0, 4}, {"a", "F32", {}, 256, 4}}).status()),
      "PROTOCOL");
  EXPECT_FALSE(TensorTable::Build({{"a", "F32", {}, 0, 4}, {"a", "F32", {}, 256, 4}}).ok());
}

TEST(TensorTableTest, RefusesAPlaceThatOverflows) {
  EXPECT_FALSE(TensorTable::Build({{"a", "F32", {}, UINT64_MAX, 4}}).ok());
}

TEST(TensorTableCacheTest, KeepsTheFirstTableOfAKey) {
  TensorTableCache cache;
  EXPECT_EQ(cache.Find("k"), nullptr);
  const auto first = *TensorTable::Build({{"a", "F32", {}, 0, 4}});
  EXPECT_EQ(cache.Put("k", first), first);
  EXPECT_EQ(cache.Put("k", *TensorTable::Build({})), first);
  EXPECT_EQ(cache.Find("k"), first);
}

TEST(TensorTableCacheTest, ForgetsWhatNobodyUsesOnceThereAreMany) {
  TensorTableCache cache;
  const auto used = cache.Put("used", *TensorTable::Build({}));
  for (int i = 0; i < 100; ++i) cache.Put(std::to_string(i), *TensorTable::Build({}));
  EXPECT_EQ(cache.Find("used"), used);
  EXPECT_EQ(cache.Find("0"), nullptr);
  EXPECT_NE(cache.Find("99"), nullptr);
}

}  // namespace
}  // namespace tenure::client
