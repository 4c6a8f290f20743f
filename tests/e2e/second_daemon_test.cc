// One daemon for each directory.

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/stat.h>

#include "tenure/client.h"
#include "tests/client/program.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

ino_t InodeOf(const std::string& path) {
  struct stat file {};
  return lstat(path.c_str(), &file) == 0 ? file.st_ino : 0;
}

std::string ContentOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// Field case 21.
TEST(SecondDaemonTest, ASecondDaemonInTheDirectoryEndsAndLeavesTheFirstAlone) {
  const Tenured first;
  const Client client = first.Connect();
  const std::string grpc = first.directory() + "/grpc.sock";
  const std::string handle = first.directory() + "/handle.sock";
  const ino_t grpc_inode = InodeOf(grpc);
  const ino_t handle_inode = InodeOf(handle);
  ASSERT_NE(grpc_inode, 0u);

  const TempDir temp;
  Program second({TENURED_PATH, "--config", first.config(), "--directory", first.directory()},
                 temp / "second");
  EXPECT_GT(second.Wait(), 0);
  const std::string words = second.Out() + second.Err();
  EXPECT_NE(words.find("already running (pid " + std::to_string(first.pid()) + ", boot id " +
                       client.boot_id() + ")"),
            std::string::npos)
      << words;
  EXPECT_EQ(InodeOf(grpc), grpc_inode);
  EXPECT_EQ(InodeOf(handle), handle_inode);
  EXPECT_TRUE(client.List().ok());
  EXPECT_EQ(first.Connect().boot_id(), client.boot_id());
}

// Field case 21.
TEST(SecondDaemonTest, ANewDaemonStartsOverTheSocketsOfAKilledOne) {
  Tenured daemon;
  const std::string boot_id = daemon.Connect().boot_id();
  daemon.Kill();
  ASSERT_NE(InodeOf(daemon.directory() + "/handle.sock"), 0u);
  daemon.Start();
  EXPECT_NE(daemon.Connect().boot_id(), boot_id);
}

class SocketPathTest : public ::testing::TestWithParam<std::string> {
 protected:
  // What a daemon says that must not start in `temp_`.
  std::string Refusal() const {
    Program daemon({TENURED_PATH, "--directory", temp_.path(), "--metrics-address", ""},
                   temp_ / "tenured");
    EXPECT_GT(daemon.Wait(), 0);
    return daemon.Out() + daemon.Err();
  }

  const TempDir temp_;
};

// Field case 21.
TEST_P(SocketPathTest, ARegularFileThereIsRefusedAndKept) {
  const std::string path = temp_.WriteFile(GetParam(), "precious");
  const std::string words = Refusal();
  EXPECT_NE(words.find(path), std::string::npos) << words;
  EXPECT_EQ(ContentOf(path), "precious");
}

// Field case 21.
TEST_P(SocketPathTest, ADirectoryThereIsRefusedAndKept) {
  const std::string path = temp_.MakeDir(GetParam());
  const std::string words = Refusal();
  EXPECT_NE(words.find(path), std::string::npos) << words;
  EXPECT_TRUE(std::filesystem::is_directory(path));
}

INSTANTIATE_TEST_SUITE_P(Sockets, SocketPathTest, ::testing::Values("grpc.sock", "handle.sock"),
                         [](const auto& each) {
                           return each.param == "grpc.sock" ? std::string("Grpc")
                                                            : std::string("Handle");
                         });

}  // namespace
}  // namespace tenure
