#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/unique_fd.h"
#include "tests/core/device/process_view.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

class PosixFileTest : public testing::Test {
 protected:
  PosixFileTest() { dir_.MakeDir("root"); }

  std::string root() const { return dir_ / "root"; }
  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) {
    return files_->Open(path, root());
  }
  Reason ReasonOf(const std::string& path) {
    const auto file = Open(path);
    for (const Reason reason : kAllReasons) {
      if (HasReason(file.status(), reason)) return reason;
    }
    ADD_FAILURE() << path << ": " << file.status();
    return Reason::kInvalidRequest;
  }
  static std::string Read(const ReadableFile& file, Bytes offset, size_t length) {
    std::string text(length, '\0');
    const Status status = file.ReadAt(offset, std::as_writable_bytes(std::span(text)));
    return status.ok() ? text : std::string(status.message());
  }

  TempDir dir_;
  const std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
};

// Field case 17.
TEST_F(PosixFileTest, WithoutFdsLeftOpeningIsRefusedAndRecovers) {
  const std::string path = dir_.WriteFile("root/a", "abc");
  {
    const SoftLimit none(RLIMIT_NOFILE, 0);
    EXPECT_EQ(ReasonOf(path), Reason::kBackend);
    EXPECT_TRUE(HasReason(files_->List(root()).status(), Reason::kBackend));
  }
  EXPECT_TRUE(Open(path).ok());
}

TEST_F(PosixFileTest, ReadsAnyPartOfAFile) {
  const auto file = Open(dir_.WriteFile("root/a", "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), root() + "/a");
  EXPECT_EQ(Read(**file, Bytes(0), 10), "0123456789");
  EXPECT_EQ(Read(**file, Bytes(7), 3), "789");
  EXPECT_EQ(Read(**file, Bytes(10), 0), "");
}

TEST_F(PosixFileTest, StatTellsVersionsOfAFileApart) {
  const std::string path = dir_.WriteFile("root/a", "0123456789");
  const auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const FileStat before = *(*file)->Stat();
  EXPECT_EQ(before.size, Bytes(10));
  EXPECT_EQ(*(*file)->Stat(), before);

  const timespec times[2] = {{0, UTIME_OMIT}, {1'700'000'000, 123'456'789}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_EQ((*file)->Stat()->mtime_ns, 1'700'000'000'123'456'789);
  EXPECT_NE(*(*file)->Stat(), before);
}

// Field case 32.
TEST_F(PosixFileTest, AFileThatEndsBeforeTheReadIsFileChanged) {
  const std::string path = dir_.WriteFile("root/a", std::string(1000, 'x'));
  const auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path, 500);
  std::string text(1000, '\0');
  const Status status = (*file)->ReadAt(Bytes(0), std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(HasReason(status, Reason::kFileChanged)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(path));
}

// Field case 32.
TEST_F(PosixFileTest, AnOpenFileStaysTheSameWhenItsNameIsReplacedOrRemoved) {
  const std::string path = dir_.WriteFile("root/a", "old");
  const auto file = Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::rename(dir_.WriteFile("root/b", "new"), path);
  EXPECT_EQ(Read(**file, Bytes(0), 3), "old");
  std::filesystem::remove(path);
  EXPECT_EQ(Read(**file, Bytes(0), 3), "old");
}

TEST_F(PosixFileTest, AMissingFileAndADanglingLinkAreNotFound) {
  std::filesystem::create_symlink("nowhere", root() + "/dangling");
  std::filesystem::create_symlink("loop", root() + "/loop");
  dir_.WriteFile("root/file", "x");
  EXPECT_EQ(ReasonOf(root() + "/missing"), Reason::kFileNotFound);
  EXPECT_EQ(ReasonOf(root() + "/dangling"), Reason::kFileNotFound);
  EXPECT_EQ(ReasonOf(root() + "/loop"), Reason::kFileNotFound);
  EXPECT_EQ(ReasonOf(root() + "/file/below"), Reason::kFileNotFound);
}

// Field case 30: the cache of Hugging Face is made of links.
TEST_F(PosixFileTest, FollowsALinkThatStaysUnderTheRoot) {
  dir_.WriteFile("root/blobs/1a2b", "weights");
  dir_.MakeDir("root/snapshots/rev");
  const std::string link = root() + "/snapshots/rev/model.safetensors";
  std::filesystem::create_symlink("../../blobs/1a2b", link);
  const auto file = Open(link);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->path(), root() + "/blobs/1a2b");
  EXPECT_EQ(Read(**file, Bytes(0), 7), "weights");
}

// Field case 30.
TEST_F(PosixFileTest, RefusesWhateverLiesOutsideTheRootAfterLinksAreResolved) {
  const std::string outside = dir_.WriteFile("outside/secret", "x");
  std::filesystem::create_symlink(outside, root() + "/file");
  std::filesystem::create_symlink(dir_ / "outside", root() + "/directory");
  EXPECT_EQ(ReasonOf(outside), Reason::kPathOutsideRoots);
  EXPECT_EQ(ReasonOf(root() + "/file"), Reason::kPathOutsideRoots);
  EXPECT_EQ(ReasonOf(root() + "/directory/secret"), Reason::kPathOutsideRoots);
  EXPECT_EQ(ReasonOf(root() + "/../outside/secret"), Reason::kPathOutsideRoots);
}

TEST_F(PosixFileTest, ADirectoryWhoseNameBeginsAsTheRootsIsOutside) {
  EXPECT_EQ(ReasonOf(dir_.WriteFile("root-2/a", "x")), Reason::kPathOutsideRoots);
}

TEST_F(PosixFileTest, EveryFileIsUnderTheRootDirectoryOfTheMachine) {
  EXPECT_TRUE(files_->Open(dir_.WriteFile("root/a", "x"), "/").ok());
}

// Field case 30: to open a FIFO for reading would wait for a writer for ever.
TEST_F(PosixFileTest, RefusesWhatIsNoRegularFileAndNeverWaits) {
  ASSERT_EQ(::mkfifo((root() + "/fifo").c_str(), 0600), 0);
  std::filesystem::create_symlink("fifo", root() + "/to-fifo");
  dir_.MakeDir("root/directory");
  EXPECT_EQ(ReasonOf(root() + "/fifo"), Reason::kInvalidCheckpoint);
  EXPECT_EQ(ReasonOf(root() + "/to-fifo"), Reason::kInvalidCheckpoint);
  EXPECT_EQ(ReasonOf(root() + "/directory"), Reason::kInvalidCheckpoint);

  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (root() + "/socket").c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(ReasonOf(root() + "/socket"), Reason::kInvalidCheckpoint);
}

TEST_F(PosixFileTest, RefusesADevice) {
  const auto file = files_->Open("/dev/zero", "/dev");
  EXPECT_TRUE(HasReason(file.status(), Reason::kInvalidCheckpoint)) << file.status();
}

TEST_F(PosixFileTest, ANameThatNoFileCanHaveIsAnError) {
  EXPECT_EQ(ReasonOf(root() + "/" + std::string(5000, 'x')), Reason::kFileUnreadable);
}

TEST_F(PosixFileTest, AReadThatTheFileLayerRefusesNamesPathOffsetAndCause) {
  const auto file = Open(dir_.WriteFile("root/a", "0123456789"));
  ASSERT_TRUE(file.ok()) << file.status();
  std::string text(1, '\0');
  // The kernel refuses offsets that are negative as it counts.
  const Status status =
      (*file)->ReadAt(Bytes(uint64_t{1} << 63), std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(HasReason(status, Reason::kFileUnreadable)) << status;
  EXPECT_THAT(
      std::string(status.message()),
      testing::AllOf(testing::HasSubstr(root() + "/a"), testing::HasSubstr("9223372036854775808"),
                     testing::HasSubstr("Invalid argument")));
}

TEST_F(PosixFileTest, KindOfFollowsLinks) {
  dir_.WriteFile("root/file", "x");
  std::filesystem::create_symlink("file", root() + "/link");
  std::filesystem::create_symlink("nowhere", root() + "/dangling");
  std::filesystem::create_symlink(".", root() + "/here");
  ASSERT_EQ(::mkfifo((root() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(files_->KindOf(root() + "/file"), FileLayer::Kind::kFile);
  EXPECT_EQ(files_->KindOf(root() + "/link"), FileLayer::Kind::kFile);
  EXPECT_EQ(files_->KindOf(root() + "/here"), FileLayer::Kind::kDirectory);
  EXPECT_EQ(files_->KindOf(root() + "/fifo"), FileLayer::Kind::kOther);
  EXPECT_EQ(files_->KindOf(root() + "/dangling"), FileLayer::Kind::kMissing);
  EXPECT_EQ(files_->KindOf(root() + "/nothing"), FileLayer::Kind::kMissing);
}

TEST_F(PosixFileTest, ListsADirectoryInTheOrderOfBytes) {
  for (const char* name : {"root/b", "root/a", "root/B", "root/.hidden", "root/a2"}) {
    dir_.WriteFile(name, "");
  }
  const auto names = files_->List(root());
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_THAT(*names, testing::ElementsAre(".hidden", "B", "a", "a2", "b"));
  EXPECT_TRUE(HasReason(files_->List(root() + "/none").status(), Reason::kFileNotFound));
  EXPECT_TRUE(HasReason(files_->List(root() + "/b").status(), Reason::kFileNotFound));
}

}  // namespace
}  // namespace tenure
