// Files that fail, change or go away while they are read: field case 32.

#include <functional>
#include <map>

#include "tests/core/checkpoint/model_files.h"

namespace tenure {
namespace {

// The machine's files. Before each step on an open file (a read, a look at its state) it calls
// `before_step` with the step's number, 1, 2, ..., and the file's path; an error is the step's.
class WatchedFiles final : public FileLayer {
 public:
  using Hook = std::function<Status(int step, const std::string& path)>;

  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                               const std::string& root) override {
    TENURE_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_->Open(path, root));
    return std::make_unique<File>(*this, std::move(file));
  }
  Kind KindOf(const std::string& path) override { return files_->KindOf(path); }
  StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    return files_->List(directory);
  }

  // Counts from one again.
  void Watch(Hook before_step) {
    steps_ = 0;
    before_step_ = std::move(before_step);
  }
  int steps() const { return steps_; }

 private:
  class File final : public ReadableFile {
   public:
    File(WatchedFiles& layer, std::unique_ptr<ReadableFile> file)
        : layer_(layer), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    StatusOr<FileStat> Stat() const override {
      TENURE_RETURN_IF_ERROR(layer_.before_step_(++layer_.steps_, path()));
      return file_->Stat();
    }
    Status ReadAt(Bytes offset, std::span<std::byte> into) const override {
      TENURE_RETURN_IF_ERROR(layer_.before_step_(++layer_.steps_, path()));
      return file_->ReadAt(offset, into);
    }

   private:
    WatchedFiles& layer_;
    const std::unique_ptr<ReadableFile> file_;
  };

  const std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
  Hook before_step_ = [](int, const std::string&) { return absl::OkStatus(); };
  int steps_ = 0;
};

class ChangingFilesTest : public ModelFiles {
 protected:
  // The names of the tensors of `relative`, if all of opening, parsing and checking goes well.
  StatusOr<std::vector<std::string>> Load(const std::string& relative) {
    TENURE_ASSIGN_OR_RETURN(const OpenCheckpoint checkpoint,
                            OpenModel(watched_, {{"models", root()}}, "models/" + relative));
    TENURE_ASSIGN_OR_RETURN(const std::vector<TensorSource> tensors, ParseTensors(checkpoint));
    TENURE_RETURN_IF_ERROR(CheckUnchanged(checkpoint));
    std::vector<std::string> names;
    names.reserve(tensors.size());
    for (const TensorSource& tensor : tensors) names.push_back(tensor.spec.name);
    std::sort(names.begin(), names.end());
    return names;
  }
  // Writes the tensors a and b into shards 1 and 2, with an index, all of long ago.
  void WriteTwoShards(const std::string& directory) {
    SetMtime(WriteTensors(directory + "/1.safetensors", {"a"}), 1);
    SetMtime(WriteTensors(directory + "/2.safetensors", {"b"}), 1);
    Write(directory + "/model.safetensors.index.json",
          ShardIndex({{"a", "1.safetensors"}, {"b", "2.safetensors"}}));
  }
  // Loads `relative` once for each of its steps, with `before_step` called before that step alone;
  // `prepare` is called before each load, `check` after each.
  void ForEachStep(const std::string& relative, const std::function<void()>& prepare,
                   const std::function<Status(const std::string& path)>& before_step,
                   const std::function<void(const StatusOr<std::vector<std::string>>&)>& check) {
    prepare();
    watched_.Watch([](int, const std::string&) { return absl::OkStatus(); });
    ASSERT_TRUE(Load(relative).ok());
    const int steps = watched_.steps();
    ASSERT_GE(steps, 4);
    for (int k = 1; k <= steps; ++k) {
      SCOPED_TRACE(k);
      prepare();
      watched_.Watch([&](int step, const std::string& path) {
        return step == k ? before_step(path) : absl::OkStatus();
      });
      check(Load(relative));
    }
  }

  WatchedFiles watched_;
};

TEST_F(ChangingFilesTest, AFileLeftAloneIsUnchanged) {
  WriteTensors("a", {"x"});
  const auto checkpoint = Open("a");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(CheckUnchanged(*checkpoint).ok());
}

// Field case 32.
TEST_F(ChangingFilesTest, ATruncatedOrRewrittenFileIsChanged) {
  const std::string path = WriteTensors("a", {"x", "y"});
  SetMtime(path, 1);
  const auto checkpoint = Open("a");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  ExpectRefused(CheckUnchanged(*checkpoint), Reason::kFileChanged, path);

  WriteTensors("a", {"x", "y"});
  ExpectRefused(CheckUnchanged(*checkpoint), Reason::kFileChanged, path);
}

// Field case 32.
TEST_F(ChangingFilesTest, AFileReplacedOrRemovedByNameIsStillTheOneThatWasOpened) {
  const std::string path = WriteTensors("a", {"x"});
  const auto checkpoint = Open("a");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  std::filesystem::rename(WriteTensors("b", {"other", "tensors"}), path);
  EXPECT_TRUE(CheckUnchanged(*checkpoint).ok());
  std::filesystem::remove(path);
  EXPECT_TRUE(CheckUnchanged(*checkpoint).ok());
  EXPECT_EQ(ParseTensors(*checkpoint)->front().spec.name, "x");
}

// Field case 32.
TEST_F(ChangingFilesTest, AnErrorOfAnyReadIsPassedOnAndLeavesNoDescriptor) {
  const size_t descriptors = OpenDescriptors();
  ForEachStep(
      "m", [this] { WriteTwoShards("m"); },
      [](const std::string& path) {
        return Error(Reason::kFileUnreadable, "input/output error: " + path);
      },
      [this, descriptors](const auto& loaded) {
        ExpectRefused(loaded.status(), Reason::kFileUnreadable, root() + "/m/");
        EXPECT_EQ(OpenDescriptors(), descriptors);
      });
}

// Field case 32.
TEST_F(ChangingFilesTest, AFileCutShortBetweenAnyTwoStepsIsRefusedByName) {
  for (const char* source : {"m/1.safetensors", "m"}) {
    for (const uintmax_t divisor : {uintmax_t{2}, uintmax_t{1'000'000}}) {
      ForEachStep(
          source, [this] { WriteTwoShards("m"); },
          [divisor](const std::string& path) {
            std::filesystem::resize_file(path, std::filesystem::file_size(path) / divisor);
            return absl::OkStatus();
          },
          [this](const auto& loaded) {
            EXPECT_TRUE(HasReason(loaded.status(), Reason::kFileChanged) ||
                        HasReason(loaded.status(), Reason::kInvalidCheckpoint))
                << loaded.status();
            EXPECT_THAT(std::string(loaded.status().message()), testing::HasSubstr(root() + "/m/"));
          });
    }
  }
}

// Field case 32: what is loaded is one version or the other, never some of both.
TEST_F(ChangingFilesTest, AFileRewrittenBetweenAnyTwoStepsIsOneVersionOrRefused) {
  ForEachStep(
      "a",
      [this] {
        SetMtime(WriteTensors("a", {"old1", "old2"}), 1);
      },
      [this](const std::string&) {
        WriteTensors("a", {"new1", "new2"});
        return absl::OkStatus();
      },
      [this](const auto& loaded) {
        if (loaded.ok()) {
          EXPECT_THAT(*loaded, testing::ElementsAre("new1", "new2"));
        } else {
          ExpectRefused(loaded.status(), Reason::kFileChanged, root() + "/a");
        }
      });
}

// Field case 32.
TEST_F(ChangingFilesTest, AFileReplacedOrRemovedBetweenAnyTwoStepsIsLoadedAsItWas) {
  for (const bool replace : {true, false}) {
    ForEachStep(
        "a",
        [this] {
          WriteTensors("a", {"old1", "old2"});
        },
        [this, replace](const std::string& path) {
          if (replace) {
            std::filesystem::rename(WriteTensors("b", {"new1", "new2"}), path);
          } else {
            std::filesystem::remove(path);
          }
          return absl::OkStatus();
        },
        [](const auto& loaded) {
          ASSERT_TRUE(loaded.ok()) << loaded.status();
          EXPECT_THAT(*loaded, testing::ElementsAre("old1", "old2"));
        });
  }
}

TEST_F(ChangingFilesTest, ParsingReadsNothingMore) {
  WriteTwoShards("m");
  const auto checkpoint = OpenModel(watched_, {{"models", root()}}, "models/m");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const int steps = watched_.steps();
  EXPECT_TRUE(ParseTensors(*checkpoint).ok());
  EXPECT_EQ(watched_.steps(), steps);
}

}  // namespace
}  // namespace tenure
