#include "core/store/parsed_model.h"

#include <filesystem>
#include <gtest/gtest.h>

#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

class ParsedModelTest : public ::testing::Test {
 protected:
  // A model of one U8 tensor for each size, in the file `name`.
  OpenCheckpoint Made(const std::string& name, const std::vector<uint64_t>& sizes,
                      uint64_t seed = 1) {
    std::vector<TensorSpec> specs;
    for (size_t i = 0; i < sizes.size(); ++i) {
      specs.push_back({.name = "t" + std::to_string(i), .dtype = DType::kU8, .shape = {sizes[i]}});
    }
    WriteSafetensors(directory_.path() + "/" + name, specs, seed);
    return Open(name);
  }

  OpenCheckpoint Open(const std::string& name) {
    StatusOr<OpenCheckpoint> checkpoint =
        OpenModel(*files_, {{.name = "models", .path = directory_.path()}}, "models/" + name);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return *std::move(checkpoint);
  }

  // Bytes of headers that are kept after the checkpoint alone was parsed.
  static Bytes KeptFor(const OpenCheckpoint& checkpoint) {
    ParsedModels models(MiB(1));
    EXPECT_TRUE(models.Parse(checkpoint).ok());
    return models.kept();
  }

  TempDir directory_;
  std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
};

TEST_F(ParsedModelTest, TellsWhereTheBytesOfEachTensorGo) {
  const OpenCheckpoint checkpoint = Made("a", {300, 0, 20});
  const StatusOr<ParsedModel> model = ParseModel(checkpoint);
  ASSERT_TRUE(model.ok()) << model.status();
  const Bytes payload = checkpoint.shards[0].payload_begin;
  ASSERT_EQ(model->sources.size(), 2U);  // nothing is read for the one without bytes
  EXPECT_EQ(model->sources[0].offset, payload);
  EXPECT_EQ(model->sources[0].target, model->layout.places()[0]);
  EXPECT_EQ(model->sources[1].offset, payload + Bytes(300));
  EXPECT_EQ(model->sources[1].target, model->layout.places()[2]);
}

TEST_F(ParsedModelTest, EqualHeadersAreParsedOnce) {
  ParsedModels models(MiB(1));
  const OpenCheckpoint a = Made("a", {300, 20}, 1);
  const OpenCheckpoint b = Made("b", {300, 20}, 2);
  const auto first = models.Parse(a);
  const auto second = models.Parse(b);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_EQ(models.kept(), KeptFor(a));
}

TEST_F(ParsedModelTest, OtherHeadersAreOthers) {
  ParsedModels models(MiB(1));
  const auto first = models.Parse(Made("a", {300, 20}));
  const auto second = models.Parse(Made("b", {300, 21}));
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_FALSE((*first)->layout.SameArchitecture((*second)->layout));
}

TEST_F(ParsedModelTest, AFileOfAnotherSizeUnderAKnownHeaderIsRefused) {
  ParsedModels models(MiB(1));
  ASSERT_TRUE(models.Parse(Made("a", {300, 20})).ok());
  const std::string path = directory_.path() + "/b";
  std::filesystem::copy_file(directory_.path() + "/a", path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  EXPECT_TRUE(HasReason(models.Parse(Open("b")).status(), Reason::kInvalidCheckpoint));
}

TEST_F(ParsedModelTest, KeepsWhatWasUsedLastWithinTheLimit) {
  const OpenCheckpoint a = Made("a", {1, 2, 3});
  const OpenCheckpoint b = Made("b", {1, 2, 4});
  const OpenCheckpoint c = Made("c", {1, 2, 5});
  ParsedModels models(KeptFor(a) + KeptFor(b));
  const auto first_a = models.Parse(a);
  const auto first_b = models.Parse(b);
  EXPECT_EQ(*models.Parse(a), *first_a);
  ASSERT_TRUE(models.Parse(c).ok());  // takes the place of b
  EXPECT_EQ(*models.Parse(a), *first_a);
  EXPECT_NE(*models.Parse(b), *first_b);
  EXPECT_EQ(models.kept(), KeptFor(a) + KeptFor(b));
}

TEST_F(ParsedModelTest, DoesNotKeepWhatExceedsTheLimit) {
  const OpenCheckpoint a = Made("a", {1, 2, 3});
  ParsedModels models(KeptFor(a) - Bytes(1));
  EXPECT_TRUE(models.Parse(a).ok());
  EXPECT_EQ(models.kept(), Bytes(0));
}

}  // namespace
}  // namespace tenure
