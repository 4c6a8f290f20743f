#include "server/socket_listener.h"

#include <fcntl.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "tests/core/device/process_view.h"
#include "tests/server/handle_client.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using Outcome = SocketListener::Outcome;

class ListenerTest : public ::testing::Test {
 protected:
  StatusOr<SocketListener> Listen() {
    return SocketListener::Listen(SocketKind::kPackets, path_, 0600, std::nullopt);
  }

  TempDir directory_;
  const std::string path_ = directory_ / "handle.sock";
};

TEST_F(ListenerTest, TheSocketHasItsModeWhateverTheUmask) {
  const mode_t before = umask(0077);
  const StatusOr<SocketListener> listener =
      SocketListener::Listen(SocketKind::kPackets, path_, 0666, getgid());
  umask(before);
  ASSERT_TRUE(listener.ok()) << listener.status();
  struct stat state {};
  ASSERT_EQ(lstat(path_.c_str(), &state), 0);
  EXPECT_TRUE(S_ISSOCK(state.st_mode));
  EXPECT_EQ(state.st_mode & 07777, 0666U);
}

TEST_F(ListenerTest, ThePathGoesWithTheListener) {
  { ASSERT_TRUE(Listen().ok()); }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ListenerTest, ReplacesASocketThatADeadDaemonLeft) {
  {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    memcpy(address.sun_path, path_.data(), path_.size());
    const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  StatusOr<SocketListener> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  const HandleClient client(path_);
  EXPECT_EQ(listener->Accept().outcome, Outcome::kAccepted);
}

TEST_F(ListenerTest, LeavesAloneWhatIsNoSocket) {
  directory_.WriteFile("handle.sock", "precious");
  EXPECT_TRUE(HasReason(Listen().status(), Reason::kInvalidRequest));
  EXPECT_TRUE(std::filesystem::is_regular_file(path_));
  std::filesystem::remove(path_);
  directory_.MakeDir("handle.sock");
  EXPECT_TRUE(HasReason(Listen().status(), Reason::kInvalidRequest));
  EXPECT_TRUE(std::filesystem::is_directory(path_));
}

TEST_F(ListenerTest, RefusesAPathThatIsTooLongOrMissing) {
  const std::string path = "/" + std::string(107, 'x');
  EXPECT_TRUE(HasReason(SocketListener::Listen(SocketKind::kPackets, path, 0600, {}).status(),
                        Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(SocketListener::Listen(SocketKind::kPackets, "", 0600, {}).status(),
                        Reason::kInvalidRequest));
  EXPECT_TRUE(HasReason(
      SocketListener::Listen(SocketKind::kPackets, directory_ / "no/where", 0600, {}).status(),
      Reason::kBackend));
}

TEST_F(ListenerTest, OutOfFdsItHangsUpOnTheFirstInLineAndGoesOn) {
  StatusOr<SocketListener> listener = Listen();
  ASSERT_TRUE(listener.ok()) << listener.status();
  HandleClient refused(path_);
  HandleClient later(path_);
  {
    const SoftLimit limit(RLIMIT_NOFILE, 64);
    std::vector<UniqueFd> hoard;
    do {
      hoard.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (hoard.back().valid());
    EXPECT_EQ(listener->Accept().outcome, Outcome::kRefused);
    EXPECT_TRUE(refused.HearsTheEnd());
  }
  EXPECT_EQ(listener->Accept().outcome, Outcome::kAccepted);
  EXPECT_EQ(listener->Accept().outcome, Outcome::kNobody);
}

}  // namespace
}  // namespace tenure
