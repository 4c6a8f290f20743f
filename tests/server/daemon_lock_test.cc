#include "server/daemon_lock.h"

#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::HasSubstr;

// Leaves a socket at `path` that nobody listens on.
void LeaveSocket(const std::string& path) {
  const UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
}

TEST(DaemonLockTest, MakesTheDirectoryForEverybodyToSee) {
  const TempDir directory;
  const std::string path = directory / "run/tenure";
  const mode_t before = umask(077);
  const StatusOr<DaemonLock> lock = DaemonLock::Take(path, "b00");
  umask(before);
  ASSERT_TRUE(lock.ok()) << lock.status();
  struct stat st {};
  ASSERT_EQ(stat(path.c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0755u);
}

TEST(DaemonLockTest, ASecondDaemonIsToldWhoTheFirstIs) {
  const TempDir directory;
  {
    const StatusOr<DaemonLock> first = DaemonLock::Take(directory.path(), "b00");
    ASSERT_TRUE(first.ok()) << first.status();
    const StatusOr<DaemonLock> second = DaemonLock::Take(directory.path(), "b01");
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr("already running (pid " + std::to_string(getpid()) + ", boot id b00)"));
  }
  EXPECT_TRUE(DaemonLock::Take(directory.path(), "b02").ok());
}

TEST(DaemonLockTest, WhatAKilledDaemonLeftIsNoLock) {
  const TempDir directory;
  directory.WriteFile("tenured.lock", "12345 b00 and something longer than the next one writes\n");
  const StatusOr<DaemonLock> lock = DaemonLock::Take(directory.path(), "b01");
  ASSERT_TRUE(lock.ok()) << lock.status();
  EXPECT_THAT(std::string(DaemonLock::Take(directory.path(), "b02").status().message()),
              HasSubstr("boot id b01)"));
}

TEST(DaemonLockTest, AFileInPlaceOfTheDirectoryIsRefused) {
  const TempDir directory;
  EXPECT_FALSE(DaemonLock::Take(directory.WriteFile("run", ""), "b00").ok());
}

TEST(DaemonLockTest, RemovesAStaleSocketAndNothingElse) {
  const TempDir directory;
  const StatusOr<DaemonLock> lock = DaemonLock::Take(directory.path(), "b00");
  ASSERT_TRUE(lock.ok()) << lock.status();

  EXPECT_TRUE(lock->ClearSocketPath(directory / "nothing.sock").ok());
  LeaveSocket(directory / "stale.sock");
  EXPECT_TRUE(lock->ClearSocketPath(directory / "stale.sock").ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "stale.sock"));

  const std::string file = directory.WriteFile("file.sock", "precious");
  EXPECT_FALSE(lock->ClearSocketPath(file).ok());
  EXPECT_EQ(std::filesystem::file_size(file), 8u);
  const std::string folder = directory.MakeDir("folder.sock");
  EXPECT_FALSE(lock->ClearSocketPath(folder).ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder));
  std::filesystem::create_symlink(file, directory / "link.sock");
  EXPECT_FALSE(lock->ClearSocketPath(directory / "link.sock").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link.sock"));
}

}  // namespace
}  // namespace tenure
