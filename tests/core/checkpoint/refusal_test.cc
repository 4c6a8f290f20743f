#include "core/checkpoint/refusal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tenure {
namespace {

TEST(ShownNameTest, LeavesShortNamesAlone) {
  EXPECT_EQ(ShownName("layers.0.weight"), "layers.0.weight");
  EXPECT_EQ(ShownName(std::string(128, 'x')), std::string(128, 'x'));
}

TEST(ShownNameTest, ReplacesControlCharacters) {
  EXPECT_EQ(ShownName(std::string_view("a\n\x1B\0b\x7F", 6)), "a???b?");
}

TEST(ShownNameTest, CutsBetweenCharacters) {
  EXPECT_EQ(ShownName(std::string(129, 'x')), std::string(128, 'x') + "...");
  EXPECT_EQ(ShownName(std::string(127, 'x') + "\xC3\xA9"), std::string(127, 'x') + "...");
  EXPECT_EQ(ShownName(std::string(126, 'x') + "\xC3\xA9y"), std::string(126, 'x') + "\xC3\xA9...");
}

TEST(ShownNamesTest, CountsWhatItLeavesOut) {
  EXPECT_EQ(ShownNames({}), "");
  EXPECT_EQ(ShownNames({"a", "b"}), "a, b");
  EXPECT_THAT(ShownNames(std::vector<std::string>(30, "a")), testing::EndsWith("a and 6 more"));
}

TEST(RefusalTest, NamesTheFileOfARefusalAsWell) {
  const Status tensor = InFile(RefuseTensor("hole before tensor", "layers.0"), "/models/a");
  EXPECT_TRUE(HasReason(tensor, Reason::kInvalidCheckpoint));
  EXPECT_EQ(tensor.message(), "hole before tensor: layers.0, file: /models/a");
  EXPECT_EQ(DetailOf(tensor)->values, (ErrorValues{{"tensor", "layers.0"}, {"path", "/models/a"}}));

  const Status dtype =
      InFile(Error(Reason::kUnsupportedDtype, "dtype: F7", {{"dtype", "F7"}}), "/a");
  EXPECT_TRUE(HasReason(dtype, Reason::kUnsupportedDtype));
  EXPECT_EQ(DetailOf(dtype)->values, (ErrorValues{{"dtype", "F7"}, {"path", "/a"}}));
}

TEST(RefusalTest, NamesTheTensorInMessageAndValues) {
  const Status status = RefuseTensor("hole before tensor", "layers.0");
  EXPECT_EQ(status.message(), "hole before tensor: layers.0");
  EXPECT_EQ(DetailOf(status)->values, (ErrorValues{{"tensor", "layers.0"}}));
}

}  // namespace
}  // namespace tenure
