// Checkpoints of several files and an index.

#include <absl/strings/str_cat.h>
#include <map>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "tests/core/checkpoint/model_files.h"

namespace tenure {
namespace {

class ShardedTest : public ModelFiles {
 protected:
  using WeightMap = std::vector<std::pair<std::string, std::string>>;

  void WriteIndex(const std::string& directory, const WeightMap& weight_map) {
    Write(directory + "/model.safetensors.index.json", ShardIndex(weight_map));
  }
  // Three shards 1, 2, 3 of two tensors each: a b, c d, e f.
  void WriteThreeShards(const std::string& directory) {
    WriteTensors(directory + "/1.safetensors", {"a", "b"});
    WriteTensors(directory + "/2.safetensors", {"c", "d"});
    WriteTensors(directory + "/3.safetensors", {"e", "f"});
    WriteIndex(directory, ThreeShards());
  }
  static WeightMap ThreeShards() {
    return {{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "2.safetensors"},
            {"d", "2.safetensors"}, {"e", "3.safetensors"}, {"f", "3.safetensors"}};
  }
  // The base name of the file that each tensor comes from.
  std::map<std::string, std::string> Origins(const std::string& relative) {
    std::map<std::string, std::string> origins;
    const auto checkpoint = Open(relative);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
    if (!checkpoint.ok()) return origins;
    const auto tensors = ParseTensors(*checkpoint);
    EXPECT_TRUE(tensors.ok()) << tensors.status();
    if (!tensors.ok()) return origins;
    for (const TensorSource& tensor : *tensors) {
      const std::string& path = checkpoint->shards[tensor.shard].file->path();
      EXPECT_TRUE(origins.emplace(tensor.spec.name, std::filesystem::path(path).filename()).second)
          << tensor.spec.name;
    }
    return origins;
  }
  static std::map<std::string, std::string> Map(const WeightMap& weight_map) {
    return {weight_map.begin(), weight_map.end()};
  }
};

TEST_F(ShardedTest, EachTensorComesFromTheShardThatTheIndexNames) {
  WriteThreeShards("m");
  EXPECT_EQ(Origins("m"), Map(ThreeShards()));
  EXPECT_EQ(Open("m")->path, root() + "/m/model.safetensors.index.json");
}

// Field case 29.
TEST_F(ShardedTest, NamesEveryMissingShardInOneError) {
  WriteThreeShards("m");
  std::filesystem::remove(root() + "/m/1.safetensors");
  std::filesystem::rename(root() + "/m/3.safetensors", root() + "/m/4.safetensors");
  const Status status = Open("m").status();
  ExpectRefused(status, Reason::kFileNotFound, "1.safetensors, 3.safetensors");
  ExpectRefused(status, Reason::kFileNotFound, "2 of 3");
  ExpectRefused(status, Reason::kFileNotFound, root() + "/m");
}

// Field case 29.
TEST_F(ShardedTest, StrayFilesBesideTheShardsAreIgnored) {
  WriteThreeShards("m");
  WriteTensors("m/model.safetensors", {"a", "b", "c", "d", "e", "f"});
  Write("m/broken.safetensors", "version https://git-lfs");
  EXPECT_EQ(Origins("m"), Map(ThreeShards()));
}

// Field case 29.
TEST_F(ShardedTest, TheIndexDecidesWhichCopyOfATensorIsTaken) {
  WriteTensors("m/base.safetensors", {"a", "b", "c"});
  WriteTensors("m/overlay.safetensors", {"b"});
  const WeightMap overlaid = {
      {"a", "base.safetensors"}, {"b", "overlay.safetensors"}, {"c", "base.safetensors"}};
  WriteIndex("m", overlaid);
  EXPECT_EQ(Origins("m"), Map(overlaid));
}

// Field case 29.
TEST_F(ShardedTest, RefusesAShardThatLacksATensorOfTheIndex) {
  WriteThreeShards("m");
  WriteTensors("m/2.safetensors", {"c"});
  const Status status = Parse("m").status();
  ExpectRefused(status, Reason::kInvalidCheckpoint, "2.safetensors lacks");
  ExpectRefused(status, Reason::kInvalidCheckpoint, ": d");
}

// Field case 29: present, but not where the index says.
TEST_F(ShardedTest, RefusesATensorThatOnlyAnotherShardHas) {
  WriteThreeShards("m");
  WriteTensors("m/1.safetensors", {"a"});
  WriteTensors("m/2.safetensors", {"b", "c", "d"});
  const Status status = Parse("m").status();
  ExpectRefused(status, Reason::kInvalidCheckpoint, ": b, file: ");
  EXPECT_THAT(DetailOf(status)->values,
              testing::UnorderedElementsAre(
                  testing::Pair("tensor", "b"),
                  testing::Pair("path", root() + "/m/model.safetensors.index.json")));
}

// Field case 29.
TEST_F(ShardedTest, RefusesATensorThatTheIndexDoesNotName) {
  WriteThreeShards("m");
  WriteTensors("m/2.safetensors", {"c", "d", "extra"});
  const Status status = Parse("m").status();
  ExpectRefused(status, Reason::kInvalidCheckpoint, "extra");
  ExpectRefused(status, Reason::kInvalidCheckpoint, "file: " + root() + "/m/2.safetensors");
  EXPECT_THAT(DetailOf(status)->values,
              testing::UnorderedElementsAre(testing::Pair("tensor", "extra"),
                                            testing::Pair("path", root() + "/m/2.safetensors")));
}

TEST_F(ShardedTest, ABrokenShardIsNamed) {
  WriteThreeShards("m");
  Write("m/2.safetensors", "version https://git-lfs.github.com/spec/v1\n");
  ExpectRefused(Open("m").status(), Reason::kInvalidCheckpoint, root() + "/m/2.safetensors");
  Write("m/2.safetensors",
        RawSafetensors(R"({"c":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "xyz"));
  ExpectRefused(Parse("m").status(), Reason::kInvalidCheckpoint, root() + "/m/2.safetensors");
}

// Field case 29.
TEST_F(ShardedTest, ABrokenIndexIsNamedAndNoFileIsLoadedInstead) {
  for (const char* text : {"", "{", "[]", "{}", R"({"weight_map":{}})",
                           R"({"weight_map":{"a":"1.safetensors","a":"1.safetensors"}})",
                           R"({"weight_map":{"a":"../1.safetensors"}})",
                           "version https://git-lfs.github.com/spec/v1\n"}) {
    WriteTensors("m/1.safetensors", {"a"});
    Write("m/model.safetensors.index.json", text);
    ExpectRefused(Open("m").status(), Reason::kInvalidCheckpoint, "model.safetensors.index.json");
  }
}

TEST_F(ShardedTest, ADanglingIndexIsMissingAndNoFileIsLoadedInstead) {
  WriteTensors("m/1.safetensors", {"a"});
  std::filesystem::create_symlink("nowhere", root() + "/m/model.safetensors.index.json");
  ExpectRefused(Open("m").status(), Reason::kFileNotFound, "model.safetensors.index.json");
}

// Field case 29.
TEST_F(ShardedTest, RefusesShardsThatAreNoShards) {
  dir_.MakeDir("root/m/directory");
  ASSERT_EQ(::mkfifo((root() + "/m/fifo").c_str(), 0600), 0);
  Write("m/empty", "");
  std::filesystem::create_symlink("itself", root() + "/m/itself");
  std::filesystem::create_symlink("/dev/zero", root() + "/m/device");
  struct Row {
    const char* shard;
    Reason reason;
  };
  const size_t descriptors = OpenDescriptors();
  for (const Row& row : {
           Row{"directory", Reason::kInvalidCheckpoint},
           Row{"fifo", Reason::kInvalidCheckpoint},
           Row{"empty", Reason::kInvalidCheckpoint},
           Row{"itself", Reason::kFileNotFound},
           Row{"device", Reason::kPathOutsideRoots},
           Row{"model.safetensors.index.json", Reason::kInvalidCheckpoint},
       }) {
    WriteIndex("m", {{"a", row.shard}});
    ExpectRefused(Open("m").status(), row.reason, row.shard);
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

// Field case 29: one file under two names gives each of its tensors once.
TEST_F(ShardedTest, OneFileMayBeTwoShards) {
  WriteTensors("m/1.safetensors", {"a", "b"});
  std::filesystem::create_symlink("1.safetensors", root() + "/m/2.safetensors");
  std::filesystem::create_hard_link(root() + "/m/1.safetensors", root() + "/m/3.safetensors");
  WriteIndex("m", {{"a", "1.safetensors"}, {"b", "2.safetensors"}});
  EXPECT_EQ(Origins("m"),
            (std::map<std::string, std::string>{{"a", "1.safetensors"}, {"b", "1.safetensors"}}));
  WriteIndex("m", {{"a", "3.safetensors"}, {"b", "2.safetensors"}});
  EXPECT_EQ(Origins("m"),
            (std::map<std::string, std::string>{{"a", "3.safetensors"}, {"b", "1.safetensors"}}));
}

// Field case 23: what is allowed to one file is allowed to all shards together.
TEST_F(ShardedTest, RefusesHeadersThatExceedTheLimitTogether) {
  for (const char* shard : {"1.safetensors", "2.safetensors"}) {
    Write(std::string("m/") + shard, RawSafetensors(std::string(50'000'001, ' '), ""));
  }
  WriteIndex("m", {{"a", "1.safetensors"}, {"b", "2.safetensors"}});
  ExpectRefused(Open("m").status(), Reason::kInvalidCheckpoint, "all shards together");
  ExpectRefused(Open("m").status(), Reason::kInvalidCheckpoint, root() + "/m/2.safetensors");
}

// Field case 23. The bound is a guard against quadratic time.
TEST_F(ShardedTest, LoadsTwoHundredThousandTensorsInBoundedTime) {
  constexpr size_t kTensors = 200'000;
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < kTensors; ++i) {
    specs.push_back({absl::StrCat("tensor.", i), DType::kU8, {0}});
  }
  WriteShardedSafetensors(root() + "/m", specs, 3, 1);
  const SteadyClock clock;
  const Instant start = clock.Now();
  const auto tensors = Parse("m");
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(60));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->size(), kTensors);
}

TEST_F(ShardedTest, RefusesAnIndexOverTheLimit) {
  WriteThreeShards("m");
  std::filesystem::resize_file(root() + "/m/model.safetensors.index.json", 100'000'001);
  ExpectRefused(Open("m").status(), Reason::kInvalidCheckpoint, "100000000");
}

TEST_F(ShardedTest, RefusesMoreShardsThanItWillHoldOpen) {
  WeightMap weight_map;
  for (int i = 0; i < 1025; ++i) weight_map.emplace_back(absl::StrCat(i), absl::StrCat(i));
  WriteIndex("m", weight_map);
  ExpectRefused(Open("m").status(), Reason::kInvalidCheckpoint, "1024");
}

// Field case 30.
TEST_F(ShardedTest, LoadsShardsThroughLinksAndRefusesThoseThatLeadOut) {
  WriteTensors("blobs/1a", {"a"});
  WriteTensors("blobs/2b", {"b"});
  dir_.MakeDir("root/snapshot");
  std::filesystem::create_symlink("../blobs/1a", root() + "/snapshot/1.safetensors");
  std::filesystem::create_symlink("../blobs/2b", root() + "/snapshot/2.safetensors");
  Write("blobs/index", ShardIndex({{"a", "1.safetensors"}, {"b", "2.safetensors"}}));
  std::filesystem::create_symlink("../blobs/index",
                                  root() + "/snapshot/model.safetensors.index.json");
  EXPECT_EQ(Origins("snapshot"), (std::map<std::string, std::string>{{"a", "1a"}, {"b", "2b"}}));

  dir_.WriteFile("outside", RawSafetensors("{}", ""));
  std::filesystem::remove(root() + "/snapshot/2.safetensors");
  std::filesystem::create_symlink(dir_ / "outside", root() + "/snapshot/2.safetensors");
  ExpectRefused(Open("snapshot").status(), Reason::kPathOutsideRoots, "2.safetensors");
}

TEST_F(ShardedTest, ContentChangesWithAnyShardAndWithTheIndex) {
  WriteThreeShards("m");
  const ContentId content = Open("m")->content;
  EXPECT_EQ(Open("m")->content, content);
  WriteIndex("m", {{"b", "1.safetensors"},
                   {"a", "1.safetensors"},
                   {"c", "2.safetensors"},
                   {"d", "2.safetensors"},
                   {"e", "3.safetensors"},
                   {"f", "3.safetensors"}});
  EXPECT_NE(Open("m")->content, content);
  WriteIndex("m", ThreeShards());
  EXPECT_EQ(Open("m")->content, content);
  WriteTensors("m/3.safetensors", {"f", "e"});
  EXPECT_NE(Open("m")->content, content);
}

// Field case 32.
TEST_F(ShardedTest, AChangeOfAnyShardIsNoticed) {
  WriteThreeShards("m");
  const auto checkpoint = Open("m");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(CheckUnchanged(*checkpoint).ok());
  std::filesystem::resize_file(root() + "/m/3.safetensors", 20);
  ExpectRefused(CheckUnchanged(*checkpoint), Reason::kFileChanged, "3.safetensors");
}

}  // namespace
}  // namespace tenure
