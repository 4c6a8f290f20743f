// What a file must look like before its header is parsed.

#include <absl/strings/str_cat.h>
#include <cstdint>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/checkpoint/safetensors.h"
#include "tests/core/checkpoint/model_files.h"

namespace tenure {
namespace {

class FileFormsTest : public ModelFiles {
 protected:
  static std::string LengthField(uint64_t length) {
    std::string field = RawSafetensors("", "");
    for (char& c : field) {
      c = static_cast<char>(length & 0xFF);
      length >>= 8;
    }
    return field;
  }
  static size_t OpenDescriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++count;
    }
    return count;
  }
  static int64_t PeakKiB() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  }
};

// Field case 22.
TEST_F(FileFormsTest, RefusesWhatIsNoSafetensorsFileAndSaysWhatItIs) {
  struct Row {
    const char* name;
    std::string content;
    const char* cause;
  };
  const std::string lfs =
      "version https://git-lfs.github.com/spec/v1\n"
      "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";
  const size_t descriptors = OpenDescriptors();
  for (const Row& row : {
           Row{"lfs", lfs, "Git LFS pointer"},
           Row{"doctype", "<!DOCTYPE html><html>Not found</html>", "HTML"},
           Row{"html", "<HTML><body>login</body></html>", "HTML"},
           Row{"xml", "<?xml version=\"1.0\"?><Error/>", "XML"},
           Row{"json", R"({"metadata":{},"weight_map":{}})", "JSON"},
           Row{"zip", std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00", 10), "PyTorch"},
           Row{"gguf", std::string("GGUF\x03\x00\x00\x00\x01\x00\x00\x00", 12), "GGUF"},
           Row{"0-bytes", "", "empty"},
           Row{"7-bytes", std::string(7, '\0'), "shorter"},
           Row{"7-bytes-of-json", R"({"a":1})", "JSON"},
           Row{"length-0", LengthField(0), "header has no bytes"},
           Row{"length-0-and-more", LengthField(0) + "{}", "header has no bytes"},
           Row{"length-only", LengthField(2), "exceeds the file's 8 bytes"},
           Row{"length-most", LengthField(UINT64_MAX) + "{}", "exceeds the limit of 100000000"},
           Row{"length-near-most", LengthField(UINT64_MAX - 7) + "{}", "18446744073709551608"},
           Row{"length-of-the-file", LengthField(10) + "{}", "exceeds the file's 10 bytes"},
           Row{"length-one-too-many", LengthField(3) + "{}", "exceeds the file's 10 bytes"},
           Row{"length-at-the-limit", LengthField(100'000'000) + "{}", "exceeds the file's"},
           Row{"length-over-the-limit", LengthField(100'000'001) + "{}", "100000001"},
       }) {
    const std::string path = Write(row.name, row.content);
    const auto checkpoint = Open(row.name);
    ExpectRefused(checkpoint.status(), Reason::kInvalidCheckpoint, row.cause);
    ExpectRefused(checkpoint.status(), Reason::kInvalidCheckpoint, path);
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

// Field case 22.
TEST_F(FileFormsTest, NeverAllocatesWhatAHeaderLengthMerelyClaims) {
  Write("claims.safetensors", LengthField(100'000'000) + "{}");
  const int64_t before = PeakKiB();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(Open("claims.safetensors").ok());
  EXPECT_LT(PeakKiB() - before, 50'000);
}

// Field case 23.
TEST_F(FileFormsTest, RefusesAHeaderOverTheLimitNamingTheLimit) {
  const std::string path = Write("big.safetensors", LengthField(126'000'000) + "{");
  std::filesystem::resize_file(path, 200'000'000);
  ExpectRefused(Open("big.safetensors").status(), Reason::kInvalidCheckpoint, "100000000");
}

// Field case 24: each of these opens, because opening does not parse, and none is loaded.
TEST_F(FileFormsTest, NamesFileAndTensorOfABrokenHeader) {
  struct Row {
    const char* name;
    const char* header;
    size_t payload;
    const char* tensor;
    Reason reason = Reason::kInvalidCheckpoint;
  };
  for (const Row& row : {
           Row{"overlap",
               R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("over":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
               6, "over"},
           Row{"truncated-by-1-byte", R"({"last":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
               3, "last"},
           Row{"1-byte-more", R"({"last":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5,
               "last"},
           Row{"later-dtype", R"({"new":{"dtype":"F7","shape":[4],"data_offsets":[0,4]}})", 4,
               "new", Reason::kUnsupportedDtype},
       }) {
    const std::string path =
        Write(row.name, RawSafetensors(row.header, std::string(row.payload, 'x')));
    ASSERT_TRUE(Open(row.name).ok()) << row.name;
    const Status status = Parse(row.name).status();
    ExpectRefused(status, row.reason, row.tensor);
    ExpectRefused(status, row.reason, path);
    const auto detail = DetailOf(status);
    EXPECT_THAT(detail->values, testing::Contains(testing::Pair("tensor", row.tensor)));
    EXPECT_THAT(detail->values, testing::Contains(testing::Pair("path", path)));
  }
}

// Field case 26.
TEST_F(FileFormsTest, LoadsWhateverTheLengthOfTheHeader) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
                             R"("b":{"dtype":"F32","shape":[4],"data_offsets":[3,19]}})";
  for (size_t padding = 0; padding < 8; ++padding) {
    const std::string padded = header + std::string(padding, ' ');
    Write("a.safetensors", RawSafetensors(padded, "xyz0123456789ABCDEF"));
    const auto checkpoint = Open("a.safetensors");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    const auto tensors = ParseTensors(*checkpoint);
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    for (const TensorSource& tensor : *tensors) {
      std::string bytes(tensor.range.size().count(), '\0');
      ASSERT_TRUE(checkpoint->shards[tensor.shard]
                      .file->ReadAt(tensor.range.begin(), std::as_writable_bytes(std::span(bytes)))
                      .ok());
      EXPECT_EQ(bytes, tensor.spec.name == "a" ? "xyz" : "0123456789ABCDEF");
    }
  }
}

// Field case 25.
TEST_F(FileFormsTest, LoadsFilesWithoutTensorsOrBytes) {
  struct Row {
    const char* name;
    const char* header;
    size_t tensors;
  };
  for (const Row& row :
       {Row{"none", "{}", 0}, Row{"metadata", R"({"__metadata__":{"a":"b"}})", 0},
        Row{"no-bytes", R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 1}}) {
    Write(row.name, RawSafetensors(row.header, ""));
    const auto tensors = Parse(row.name);
    ASSERT_TRUE(tensors.ok()) << row.name << ": " << tensors.status();
    EXPECT_EQ(tensors->size(), row.tensors) << row.name;
  }
}

// Field case 30: nothing that is no file is opened, and nothing waits.
TEST_F(FileFormsTest, RefusesWhatIsNoFile) {
  ASSERT_EQ(::mkfifo((root() + "/fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere", root() + "/dangling");
  ExpectRefused(Open("fifo").status(), Reason::kInvalidCheckpoint, "not a regular file");
  ExpectRefused(Open("dangling").status(), Reason::kFileNotFound, "dangling");
  ExpectRefused(Open("missing").status(), Reason::kFileNotFound, "missing");
}

}  // namespace
}  // namespace tenure
