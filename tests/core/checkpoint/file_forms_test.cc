// What a file must look like before its header is parsed.

#include <absl/strings/str_cat.h>
#include <cstdint>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

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
           Row{"html-page", "\n<!DOCTYPE html>", "exceeds the limit"},
           Row{"tar", "weights/" + std::string(504, '\0'), "exceeds the limit"},
           Row{"gzip", std::string("\x1F\x8B\x08\x00\x00\x00\x00\x00", 8), "exceeds the file's"},
           Row{"pickle", std::string("\x80\x02}q\x00(X\x01\x00\x00", 10), "exceeds the limit"},
           Row{"hdf5", "\x89HDF\r\n\x1A\n", "exceeds the limit"},
           Row{"big-endian", std::string(7, '\0') + "\x02{}", "exceeds the limit"},
           Row{"32-bit-length", std::string("\x02\0\0\0{}  ", 8), "exceeds the limit"},
           Row{"lfs-short", "version", "shorter"},
           Row{"1-byte", "{", "JSON"},
           Row{"8-zeros", std::string(8, '\0'), "header has no bytes"},
           Row{"0-bytes", "", "empty"},
           Row{"7-bytes", std::string(7, '\0'), "shorter"},
           Row{"7-bytes-of-json", R"({"a":1})", "JSON"},
           Row{"length-0", LengthField(0), "header has no bytes"},
           Row{"length-0-and-more", LengthField(0) + "{}", "header has no bytes"},
           Row{"length-only", LengthField(2), "exceeds the file's 8 bytes"},
           Row{"length-most", LengthField(UINT64_MAX) + "{}", "exceeds the limit of 100000000"},
           Row{"length-near-most", LengthField(UINT64_MAX - 7) + "{}", "18446744073709551608"},
           Row{"length-negative", LengthField(uint64_t{1} << 63) + "{}", "9223372036854775808"},
           Row{"length-to-the-end-of-2^64", LengthField(UINT64_MAX - 9) + "{}",
               "exceeds the limit"},
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
TEST_F(FileFormsTest, LoadsAHeaderOfTheLimitAndRefusesOneByteMoreNamingTheLimit) {
  std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  header.resize(100'000'000, ' ');
  Write("most.safetensors", RawSafetensors(header, "wxyz"));
  const auto tensors = Parse("most.safetensors");
  EXPECT_TRUE(tensors.ok()) << tensors.status();

  const std::string path = Write("more.safetensors", LengthField(100'000'001) + "{}");
  std::filesystem::resize_file(path, 200'000'000);
  const Status status = Open("more.safetensors").status();
  ExpectRefused(status, Reason::kInvalidCheckpoint, "100000000");
  ExpectRefused(status, Reason::kInvalidCheckpoint, path);
}

// Field case 22: nor many times what a broken header holds, to say that it is broken.
TEST_F(FileFormsTest, TakesMemoryInProportionToABrokenHeader) {
  constexpr int64_t kKiB = int64_t{10} << 10;
  for (const char* white : {"\n", "\t", "\r", " ", "null,\n", "\x01"}) {
    std::string header = R"({"a":{"more":[)";
    while (header.size() < kKiB << 10) header += white;
    Write("white.safetensors", RawSafetensors(header + "x", ""));
    const int64_t before = PeakKiB();
    ExpectRefused(Parse("white.safetensors").status(), Reason::kInvalidCheckpoint, "not JSON");
    EXPECT_LT(PeakKiB() - before, 20 * kKiB) << white;
  }
}

// Field case 24: a file of hardly any bytes on the disk, as large as the file system lets it be.
TEST_F(FileFormsTest, TakesNoMemoryForThePayloadOfASparseFile) {
  for (uint64_t size = (uint64_t{1} << 61) - 1; size > (uint64_t{1} << 40); size /= 2) {
    const std::string header = absl::StrCat(R"({"a":{"dtype":"U8","shape":[)", size,
                                            R"(],"data_offsets":[0,)", size, "]}}");
    const std::string path = Write("sparse", RawSafetensors(header, ""));
    if (::truncate(path.c_str(), static_cast<off_t>(8 + header.size() + size)) != 0) continue;
    const int64_t before = PeakKiB();
    const auto tensors = Parse("sparse");
    ASSERT_TRUE(tensors.ok()) << tensors.status();
    EXPECT_EQ(tensors->front().range.size(), Bytes(size));
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(7 + header.size() + size)), 0);
    ExpectRefused(Parse("sparse").status(), Reason::kInvalidCheckpoint, "beyond the end");
    EXPECT_LT(PeakKiB() - before, 50'000);
    return;
  }
  GTEST_SKIP() << "the file system has no sparse files over 1 TiB";
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
           Row{"same-range-twice",
               R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
               4, "b"},
           Row{"hole",
               R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
               R"("after":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}})",
               3, "after"},
           Row{"shape-overflows",
               R"({"wide":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
               4, "wide"},
           Row{"far-beyond",
               R"({"far":{"dtype":"U8","shape":[1],)"
               R"("data_offsets":[18446744073709551614,18446744073709551615]}})",
               1, "far"},
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
  const size_t descriptors = OpenDescriptors();
  ASSERT_EQ(::mknod((root() + "/fifo").c_str(), S_IFIFO | 0600, 0), 0);
  ASSERT_EQ(::mknod((root() + "/socket").c_str(), S_IFSOCK | 0600, 0), 0);
  const auto link = [this](const char* target, const char* name) {
    std::filesystem::create_symlink(target, root() + "/" + name);
  };
  link("fifo", "link-to-fifo");
  link("nowhere", "dangling");
  link("dangling", "link-to-dangling");
  link("itself", "itself");
  link("there", "back");
  link("back", "there");
  link("/dev/zero", "device");
  link("/proc/self/mem", "memory");
  WriteTensors("file", {"x"});
  struct Row {
    const char* source;
    Reason reason;
    const char* cause;
  };
  for (const Row& row : {
           Row{"fifo", Reason::kInvalidCheckpoint, "not a regular file"},
           Row{"socket", Reason::kInvalidCheckpoint, "not a regular file"},
           Row{"link-to-fifo", Reason::kInvalidCheckpoint, "not a regular file"},
           Row{"missing", Reason::kFileNotFound, "no such file"},
           Row{"dangling", Reason::kFileNotFound, "no such file"},
           Row{"link-to-dangling", Reason::kFileNotFound, "no such file"},
           Row{"itself", Reason::kFileNotFound, "no such file"},
           Row{"there", Reason::kFileNotFound, "no such file"},
           Row{"file/x", Reason::kFileNotFound, "no such file"},
           Row{"device", Reason::kPathOutsideRoots, "outside"},
           Row{"memory", Reason::kPathOutsideRoots, "outside"},
       }) {
    SCOPED_TRACE(row.source);
    ExpectRefused(Open(row.source).status(), row.reason, row.cause);
    ExpectRefused(Open(row.source).status(), row.reason, row.source);
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

// Field case 30.
TEST_F(FileFormsTest, RefusesNoFilesUnderTheNamesOfFiles) {
  dir_.MakeDir("root/a/model.safetensors");
  ExpectRefused(Open("a").status(), Reason::kInvalidCheckpoint, "not a regular file");
  dir_.MakeDir("root/b/model.safetensors.index.json");
  ExpectRefused(Open("b").status(), Reason::kInvalidCheckpoint, "not a regular file");
  dir_.MakeDir("root/c");
  ASSERT_EQ(::mkfifo((root() + "/c/model.safetensors.index.json").c_str(), 0600), 0);
  ExpectRefused(Open("c").status(), Reason::kInvalidCheckpoint, "not a regular file");
  for (const char* device : {"zero", "null", "full"}) {
    const auto checkpoint =
        OpenModel(*files_, {{"devices", "/dev"}}, std::string("devices/") + device);
    ExpectRefused(checkpoint.status(), Reason::kInvalidCheckpoint, "not a regular file");
  }
  // Regular files to look at, without a size.
  const auto checkpoint = OpenModel(*files_, {{"kernel", "/proc"}}, "kernel/version");
  ExpectRefused(checkpoint.status(), Reason::kInvalidCheckpoint, "empty");
}

// Field case 30: whatever characters a name is made of, it is a file's name.
TEST_F(FileFormsTest, TakesFileNamesOfAnyCharacters) {
  for (const std::string name :
       {"with space", "new\nline", "\xFF\xFE", "%s%n", "-rf", "a;b", "..."}) {
    WriteTensors(name, {"x"});
    EXPECT_TRUE(Parse(name).ok()) << Parse(name).status();
  }
  EXPECT_TRUE(HasReason(Open(std::string(300, 'x')).status(), Reason::kFileUnreadable));
  EXPECT_FALSE(Open(std::string(5000, '/') + "x").ok());
}

}  // namespace
}  // namespace tenure
