#include "core/checkpoint/checkpoint.h"

#include "tests/core/checkpoint/model_files.h"

namespace tenure {
namespace {

class CheckpointTest : public ModelFiles {
 protected:
  ContentId ContentOf(const std::string& relative) {
    const auto checkpoint = Open(relative);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    return checkpoint.ok() ? checkpoint->content : ContentId();
  }
};

TEST_F(CheckpointTest, OpensOneFileByRootNameOrAbsolutePath) {
  const std::string path = WriteTensors("a/b.safetensors", {"x", "y"});
  for (const std::string& source : {std::string("models/a/b.safetensors"), path}) {
    const auto checkpoint = OpenModel(*files_, {{"models", root()}}, source);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_EQ(checkpoint->path, path);
    EXPECT_TRUE(checkpoint->index.empty());
    ASSERT_EQ(checkpoint->shards.size(), 1u);
    EXPECT_EQ(checkpoint->shards[0].payload_begin, Bytes(8 + checkpoint->shards[0].header.size()));
    const auto tensors = ParseTensors(*checkpoint);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(tensors->size(), 2u);
  }
}

TEST_F(CheckpointTest, OpensADirectoryWithOneFile) {
  const std::string path = WriteTensors("a/weights.safetensors", {"x"});
  Write("a/config.json", "{}");
  Write("a/pytorch_model.bin", "PK");
  const auto checkpoint = Open("a");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->path, path);
  EXPECT_EQ(checkpoint->content, ContentOf("a/weights.safetensors"));
}

TEST_F(CheckpointTest, RefusesADirectoryWithoutSafetensors) {
  Write("a/config.json", "{}");
  ExpectRefused(Open("a").status(), Reason::kFileNotFound, root() + "/a");
}

// Field case 29.
TEST_F(CheckpointTest, RefusesADirectoryWithSeveralFilesAndNoIndexNamingThem) {
  WriteTensors("a/one.safetensors", {"x"});
  WriteTensors("a/two.safetensors", {"x"});
  const Status status = Open("a").status();
  ExpectRefused(status, Reason::kInvalidCheckpoint, "one.safetensors");
  ExpectRefused(status, Reason::kInvalidCheckpoint, "two.safetensors");
}

// Field case 29: the rest of a download that was cut short is no model.
TEST_F(CheckpointTest, RefusesALoneShardOfSeveralUnlessItIsAskedForByName) {
  WriteTensors("a/model-00001-of-00003.safetensors", {"x"});
  ExpectRefused(Open("a").status(), Reason::kInvalidCheckpoint, "one shard of several");
  EXPECT_TRUE(Open("a/model-00001-of-00003.safetensors").ok());
  WriteTensors("b/model-00001-of-00001.safetensors", {"x"});
  EXPECT_TRUE(Open("b").ok());
  WriteTensors("c/best-of-5-runs.safetensors", {"x"});
  EXPECT_TRUE(Open("c").ok());
}

// Field case 30: the cache of Hugging Face is made of links.
TEST_F(CheckpointTest, LoadsThroughTheLinksOfAHuggingFaceCache) {
  const std::string blob = WriteTensors("hub/blobs/0a1b2c", {"x", "y"});
  dir_.MakeDir("root/hub/snapshots/rev");
  std::filesystem::create_symlink("../../blobs/0a1b2c",
                                  root() + "/hub/snapshots/rev/model.safetensors");
  const auto checkpoint = Open("hub/snapshots/rev");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->path, blob);
  EXPECT_EQ(ParseTensors(*checkpoint)->size(), 2u);
}

// Field case 30.
TEST_F(CheckpointTest, RefusesLinksThatLeadOutOfTheRootAndKeepsWhatIsThereToItself) {
  dir_.WriteFile("outside/secret-1.safetensors", RawSafetensors("{}", ""));
  dir_.WriteFile("outside/secret-2.safetensors", RawSafetensors("{}", ""));
  std::filesystem::create_symlink(dir_ / "outside/secret-1.safetensors", root() + "/file");
  std::filesystem::create_symlink(dir_ / "outside", root() + "/directory");
  ExpectRefused(Open("file").status(), Reason::kPathOutsideRoots, root() + "/file");
  const Status status = Open("directory").status();
  ExpectRefused(status, Reason::kPathOutsideRoots, root());
  EXPECT_THAT(std::string(status.message()), testing::Not(testing::HasSubstr("secret-2")));
}

TEST_F(CheckpointTest, TheSameFileHasTheSameContentUnderAnyName) {
  WriteTensors("a.safetensors", {"x"});
  std::filesystem::create_symlink("a.safetensors", root() + "/link");
  std::filesystem::create_hard_link(root() + "/a.safetensors", root() + "/hard");
  const ContentId content = ContentOf("a.safetensors");
  EXPECT_EQ(ContentOf("a.safetensors"), content);
  EXPECT_EQ(ContentOf("link"), content);
  EXPECT_EQ(ContentOf("hard"), content);
}

TEST_F(CheckpointTest, ContentChangesWithInodeSizeTimeAndHeader) {
  const std::string path = WriteTensors("a", {"x"});
  SetMtime(path, 1);
  const ContentId content = ContentOf("a");

  SetMtime(path, 2);
  EXPECT_NE(ContentOf("a"), content) << "a nanosecond later";
  SetMtime(path, 1);
  EXPECT_EQ(ContentOf("a"), content);

  std::filesystem::copy_file(path, root() + "/copy");
  SetMtime(root() + "/copy", 1);
  EXPECT_NE(ContentOf("copy"), content) << "another inode";

  WriteTensors("a", {"y"});
  SetMtime(path, 1);
  EXPECT_NE(ContentOf("a"), content) << "another header";

  WriteTensors("a", {"x"});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) + 1);
  SetMtime(path, 1);
  EXPECT_NE(ContentOf("a"), content) << "another size";
}

}  // namespace
}  // namespace tenure
