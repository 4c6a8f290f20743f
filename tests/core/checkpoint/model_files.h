#pragma once

#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <span>
#include <string>
#include <sys/stat.h>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// A model root "models" in a directory of the test's own, and what is opened in it.
class ModelFiles : public testing::Test {
 protected:
  ModelFiles() { dir_.MakeDir("root"); }

  std::string root() const { return dir_ / "root"; }
  // Writes a file under the root.
  std::string Write(const std::string& name, const std::string& content) {
    return dir_.WriteFile("root/" + name, content);
  }
  // Writes a file of U8 tensors of 4 bytes each.
  std::string WriteTensors(const std::string& name, const std::vector<std::string>& tensors) {
    std::vector<TensorSpec> specs;
    for (const std::string& tensor : tensors) specs.push_back({tensor, DType::kU8, {4}});
    std::filesystem::create_directories(std::filesystem::path(root() + "/" + name).parent_path());
    WriteSafetensors(root() + "/" + name, specs, 1);
    return root() + "/" + name;
  }

  static void SetMtime(const std::string& path, int64_t nanoseconds) {
    const timespec times[2] = {{0, UTIME_OMIT}, {1'700'000'000, nanoseconds}};
    ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  }

  StatusOr<OpenCheckpoint> Open(const std::string& relative) {
    return OpenModel(*files_, {{"models", root()}}, "models/" + relative);
  }
  StatusOr<std::vector<TensorSource>> Parse(const std::string& relative) {
    StatusOr<OpenCheckpoint> checkpoint = Open(relative);
    if (!checkpoint.ok()) return checkpoint.status();
    return ParseTensors(*checkpoint);
  }

  static size_t OpenDescriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  }

  void ExpectRefused(const Status& status, Reason reason, const std::string& named) {
    EXPECT_TRUE(HasReason(status, reason)) << ReasonName(reason) << ", but: " << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(named));
  }

  TempDir dir_;
  const std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
};

}  // namespace tenure
