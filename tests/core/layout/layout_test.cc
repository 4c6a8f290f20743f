#include "core/layout/layout.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

namespace tenure {
namespace {

using testing::HasSubstr;

std::vector<TensorSpec> SomeSpecs() {
  return {{"embed.weight", DType::kBF16, {10, 7}},    {"layers.0.bias", DType::kF32, {3}},
          {"layers.0.weight", DType::kF32, {3, 100}}, {"layers.1.mask", DType::kF32, {0, 4}},
          {"layers.10.weight", DType::kU8, {257}},    {"norm", DType::kF64, {}}};
}

Layout Of(std::vector<TensorSpec> specs, Bytes alignment = kDefaultAlignment) {
  StatusOr<Layout> layout = Layout::Of(std::move(specs), alignment);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

// The contract of layout.h, checked from outside.
void Validate(const Layout& layout) {
  ASSERT_EQ(layout.specs().size(), layout.places().size());
  Bytes end;
  Bytes sum;
  for (size_t i = 0; i < layout.specs().size(); ++i) {
    const Range place = layout.places()[i];
    if (i > 0) {
      EXPECT_LT(layout.specs()[i - 1].name, layout.specs()[i].name);
    }
    EXPECT_EQ(place.size(), *TensorBytes(layout.specs()[i]));
    EXPECT_TRUE((place.begin() % layout.alignment()).zero()) << layout.specs()[i].name;
    if (!place.empty()) {
      EXPECT_GE(place.begin(), end);
      EXPECT_LT(place.begin() - end, layout.alignment());
      end = place.end();
    }
    sum += place.size();
  }
  EXPECT_EQ(layout.total(), end);
  EXPECT_EQ(layout.tensor_bytes(), sum);
  EXPECT_GE(layout.total(), layout.tensor_bytes());
}

// Field case 26.
TEST(LayoutTest, EachTensorBeginsAtTheNextMultipleOfTheAlignment) {
  const Layout layout = Of(SomeSpecs());
  Validate(layout);
  EXPECT_EQ(layout.places()[0], Range(Bytes(0), Bytes(140)));
  EXPECT_EQ(layout.places()[1], Range(Bytes(256), Bytes(268)));
  EXPECT_EQ(layout.places()[2], Range(Bytes(512), Bytes(1712)));
  EXPECT_EQ(layout.total(), Bytes(2312));
  EXPECT_EQ(layout.tensor_bytes(), Bytes(140 + 12 + 1200 + 257 + 8));
}

TEST(LayoutTest, TheOrderOfTheSpecsDoesNotMatter) {
  const Layout sorted = Of(SomeSpecs());
  std::vector<TensorSpec> specs = SomeSpecs();
  std::mt19937 random(7);
  for (int i = 0; i < 50; ++i) {
    std::shuffle(specs.begin(), specs.end(), random);
    const Layout layout = Of(specs);
    EXPECT_TRUE(layout.SameArchitecture(sorted));
    EXPECT_EQ(layout.key(), sorted.key());
    EXPECT_EQ(layout.places(), sorted.places());
  }
}

TEST(LayoutTest, NamesAreOrderedByTheirBytes) {
  const Layout layout = Of({{"layers.2", DType::kU8, {1}},
                            {"layers.10", DType::kU8, {1}},
                            {"\xC3\xA9", DType::kU8, {1}},
                            {"Z", DType::kU8, {1}},
                            {"a", DType::kU8, {1}}});
  std::vector<std::string> names;
  for (const TensorSpec& spec : layout.specs()) names.push_back(spec.name);
  EXPECT_THAT(names, testing::ElementsAre("Z", "a", "layers.10", "layers.2", "\xC3\xA9"));
}

TEST(LayoutTest, AlignmentOfOnePacksTheTensors) {
  const Layout layout = Of(SomeSpecs(), Bytes(1));
  Validate(layout);
  EXPECT_EQ(layout.total(), layout.tensor_bytes());
}

TEST(LayoutTest, AnyAlignmentKeepsTheContract) {
  for (uint64_t alignment = 1; alignment <= MiB(2).count(); alignment *= 2) {
    Validate(Of(SomeSpecs(), Bytes(alignment)));
  }
}

// Field case 25.
TEST(LayoutTest, TensorsWithoutBytesHaveEmptyPlacesWhereverTheyStand) {
  const Layout layout = Of({{"a", DType::kF32, {0}},
                            {"b", DType::kF32, {1}},
                            {"c", DType::kF32, {2, 0, 3}},
                            {"d", DType::kF32, {0}},
                            {"e", DType::kF32, {1}},
                            {"f", DType::kF32, {0}}});
  Validate(layout);
  for (const char* name : {"a", "c", "d", "f"}) {
    EXPECT_TRUE(layout.places()[layout.Find(name)].empty()) << name;
  }
  EXPECT_EQ(layout.total(), Bytes(260));
}

// Field case 25.
TEST(LayoutTest, ModelsWithoutBytesOrTensorsAreModels) {
  EXPECT_EQ(Of({}).total(), Bytes(0));
  EXPECT_EQ(Of({}).Find("a"), 0u);
  EXPECT_EQ(Of({{"a", DType::kF32, {0}}, {"b", DType::kF32, {0}}}).total(), Bytes(0));
}

TEST(LayoutTest, TheKeyDiffersOnAnyChange) {
  const Layout base = Of(SomeSpecs());
  std::vector<std::pair<const char*, Layout>> changed;
  const auto change = [&changed](const char* what, auto apply) {
    std::vector<TensorSpec> specs = SomeSpecs();
    apply(specs);
    changed.emplace_back(what, Of(specs));
  };
  change("a name", [](auto& specs) { specs[0].name = "embed.weighs"; });
  change("a dtype of the same size", [](auto& specs) { specs[0].dtype = DType::kF16; });
  change("an extent", [](auto& specs) { specs[2].shape = {3, 101}; });
  change("two extents swapped", [](auto& specs) { specs[2].shape = {100, 3}; });
  change("another rank of the same size", [](auto& specs) { specs[2].shape = {300}; });
  change("an extent of one", [](auto& specs) { specs[5].shape = {1}; });
  change("a shape without bytes", [](auto& specs) { specs[3].shape = {0, 5}; });
  change("a tensor less", [](auto& specs) { specs.pop_back(); });
  change("a tensor more", [](auto& specs) { specs.push_back({"z", DType::kU8, {0}}); });
  changed.emplace_back("the alignment", Of(SomeSpecs(), Bytes(512)));
  for (const auto& [what, layout] : changed) {
    EXPECT_NE(layout.key(), base.key()) << what;
    EXPECT_FALSE(layout.SameArchitecture(base)) << what;
  }
}

TEST(LayoutTest, NamesThatRunIntoOneAnotherHaveKeysOfTheirOwn) {
  const Layout one = Of({{"ab", DType::kU8, {1}}, {"c", DType::kU8, {1}}});
  const Layout other = Of({{"a", DType::kU8, {1}}, {"bc", DType::kU8, {1}}});
  EXPECT_NE(one.key(), other.key());
}

TEST(LayoutTest, FindGivesTheIndexOrTheSize) {
  const Layout layout = Of(SomeSpecs());
  for (size_t i = 0; i < layout.specs().size(); ++i) {
    EXPECT_EQ(layout.Find(layout.specs()[i].name), i);
  }
  for (const char* name : {"", "embed", "layers.1", "zzz", "embed.weight "}) {
    EXPECT_EQ(layout.Find(name), layout.specs().size()) << name;
  }
}

// Field case 24.
TEST(LayoutTest, RefusesTwoTensorsOfOneName) {
  std::vector<TensorSpec> specs = SomeSpecs();
  specs.push_back({"norm", DType::kF32, {2}});
  const auto layout = Layout::Of(specs);
  EXPECT_TRUE(HasReason(layout.status(), Reason::kInvalidCheckpoint));
  EXPECT_THAT(std::string(layout.status().message()), HasSubstr("norm"));
}

// Field case 24.
TEST(LayoutTest, RefusesSizesThatOverflowAndTotalsBeyondTheLimit) {
  const uint64_t half = uint64_t{1} << 60;
  for (const auto& specs : {std::vector<TensorSpec>{{"huge", DType::kU8, {UINT64_MAX}}},
                            std::vector<TensorSpec>{{"huge", DType::kF64, {half}}},
                            std::vector<TensorSpec>{{"a", DType::kU8, {half}},
                                                    {"b", DType::kU8, {half}},
                                                    {"c", DType::kU8, {half}},
                                                    {"d", DType::kU8, {half}},
                                                    {"huge", DType::kU8, {1}}}}) {
    const auto layout = Layout::Of(specs);
    ASSERT_TRUE(HasReason(layout.status(), Reason::kInvalidCheckpoint));
    EXPECT_THAT(std::string(layout.status().message()), HasSubstr("huge"));
  }
}

TEST(LayoutTest, TakesATotalOfExactlyTheLimit) {
  const uint64_t half = uint64_t{1} << 60;
  const Layout layout = Of({{"a", DType::kU8, {half}},
                            {"b", DType::kU8, {half}},
                            {"c", DType::kU8, {half}},
                            {"d", DType::kU8, {half}}});
  EXPECT_EQ(layout.total(), Bytes(uint64_t{1} << 62));
}

TEST(LayoutDeathTest, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  EXPECT_DEATH(static_cast<void>(Layout::Of(SomeSpecs(), Bytes(3))), "CHECK failed");
}

}  // namespace
}  // namespace tenure
