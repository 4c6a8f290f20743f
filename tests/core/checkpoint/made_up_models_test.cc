// The checkpoints that tests/support writes are what it says they are.

#include "core/layout/layout.h"
#include "tests/core/checkpoint/model_files.h"
#include "tests/support/model_generator.h"

namespace tenure {
namespace {

Layout LayoutOf(const ModelParameters& parameters) {
  StatusOr<Layout> layout = Layout::Of(GenerateModel(parameters));
  EXPECT_TRUE(layout.ok()) << layout.status();
  return *std::move(layout);
}

class MadeUpModelsTest : public ModelFiles {
 protected:
  void ExpectContent(const OpenCheckpoint& checkpoint, uint64_t seed) {
    const auto tensors = ParseTensors(checkpoint);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    for (const TensorSource& tensor : *tensors) {
      std::vector<std::byte> bytes(tensor.range.size().count());
      ASSERT_TRUE(checkpoint.shards[tensor.shard].file->ReadAt(tensor.range.begin(), bytes).ok());
      ASSERT_EQ(bytes, ContentOf(tensor.spec, seed)) << tensor.spec.name;
    }
  }
};

TEST_F(MadeUpModelsTest, HaveAboutTheBytesAndTheTensorsTheyShould) {
  for (const auto& [architecture, tensors] : {std::pair(Architecture::kRecMlp, size_t{46}),
                                              {Architecture::kGnn, 129},
                                              {Architecture::kMoe, 297}}) {
    for (const Bytes target : {MiB(2), MiB(16), MiB(256), GiB(4)}) {
      const Layout layout = LayoutOf({.architecture = architecture, .target = target});
      EXPECT_EQ(layout.specs().size(), tensors) << ArchitectureName(architecture);
      EXPECT_LE(layout.tensor_bytes(), target) << ArchitectureName(architecture);
      EXPECT_GE(layout.tensor_bytes().count(), target.count() / 10 * 9)
          << ArchitectureName(architecture) << " " << FormatBytes(target);
    }
  }
}

TEST_F(MadeUpModelsTest, OneWiderLayerOrOneMoreChangesTheArchitecture) {
  for (const auto architecture : {Architecture::kRecMlp, Architecture::kGnn, Architecture::kMoe}) {
    const ModelParameters base{.architecture = architecture};
    ModelParameters wider = base;
    wider.wider_layer = 2;
    ModelParameters deeper = base;
    deeper.extra_layers = 1;
    EXPECT_EQ(LayoutOf(base).key(), LayoutOf(base).key());
    EXPECT_NE(LayoutOf(wider).key(), LayoutOf(base).key());
    EXPECT_EQ(LayoutOf(wider).specs().size(), LayoutOf(base).specs().size());
    EXPECT_GT(LayoutOf(wider).tensor_bytes(), LayoutOf(base).tensor_bytes());
    EXPECT_GT(LayoutOf(deeper).specs().size(), LayoutOf(base).specs().size());
  }
}

TEST_F(MadeUpModelsTest, AFileHoldsTheContentOfItsSeed) {
  WriteSafetensors(root() + "/a", GenerateModel({.target = MiB(3)}), 7);
  const auto checkpoint = Open("a");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  ExpectContent(*checkpoint, 7);
}

TEST_F(MadeUpModelsTest, ShardsHoldTheSameTensorsAsOneFile) {
  const std::vector<TensorSpec> specs =
      GenerateModel({.architecture = Architecture::kMoe, .target = MiB(2)});
  for (const size_t shards : {size_t{1}, size_t{3}, specs.size()}) {
    WriteShardedSafetensors(root() + "/" + std::to_string(shards), specs, shards, 7);
    const auto checkpoint = Open(std::to_string(shards));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->shards.size(), shards);
    EXPECT_EQ(ParseTensors(*checkpoint)->size(), specs.size());
    ExpectContent(*checkpoint, 7);
  }
}

TEST_F(MadeUpModelsTest, ContentIsReachableAtAnyOffset) {
  const TensorSpec spec{"a", DType::kU8, {100}};
  const std::vector<std::byte> all = ContentOf(spec, 3);
  for (size_t begin = 0; begin < all.size(); ++begin) {
    for (size_t end = begin; end <= all.size(); ++end) {
      std::vector<std::byte> part(end - begin);
      TensorContent(spec, 3).Fill(Bytes(begin), part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), all.begin() + static_cast<long>(begin)));
    }
  }
  EXPECT_NE(ContentOf(spec, 4), all);
  EXPECT_NE(ContentOf({"b", DType::kU8, {100}}, 3), all);
}

}  // namespace
}  // namespace tenure
