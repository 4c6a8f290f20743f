#include "client/cpp/handle_socket.h"

#include <array>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "tenure/errors.h"
#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

struct Pair {
  HandleSocket client;
  UniqueFd daemon;
};

Pair Connected() {
  std::array<int, 2> fds{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds.data()), 0);
  return {HandleSocket(UniqueFd(fds[0])), UniqueFd(fds[1])};
}

void SendFds(const UniqueFd& from, size_t count) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(64 * sizeof(int))> control{};
  char byte = 'x';
  iovec buffer{&byte, 1};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = CMSG_SPACE(count * sizeof(int));
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(count * sizeof(int));
  const int fd = from.get();
  for (size_t i = 0; i < count; ++i) memcpy(CMSG_DATA(part) + i * sizeof(int), &fd, sizeof(fd));
  ASSERT_EQ(sendmsg(from.get(), &message, 0), 1);
}

TEST(HandleSocketTest, NoDaemonIsUnreachable) {
  const TempDir temp;
  const auto socket = HandleSocket::Connect(temp / "none.sock", Deadline(std::chrono::seconds(1)));
  EXPECT_EQ(ErrorReason(socket.status()), "DAEMON_UNREACHABLE");
  EXPECT_EQ(ErrorValues(socket.status()).at("path"), temp / "none.sock");
}

TEST(HandleSocketTest, APathThatNoSocketCanHaveIsRefused) {
  const auto socket =
      HandleSocket::Connect(std::string(200, 'x'), Deadline(std::chrono::seconds(1)));
  EXPECT_EQ(socket.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(HandleSocketTest, PacketsKeepTheirBordersAndOrder) {
  Pair pair = Connected();
  ASSERT_EQ(send(pair.daemon.get(), "one", 3, 0), 3);
  ASSERT_EQ(send(pair.daemon.get(), "three", 5, 0), 5);
  EXPECT_EQ((**pair.client.Receive()).bytes, "one");
  EXPECT_EQ((**pair.client.Receive()).bytes, "three");
  EXPECT_FALSE(pair.client.Receive()->has_value());
}

TEST(HandleSocketTest, FdsComeWithTheirPacketAndCloseOnExec) {
  Pair pair = Connected();
  SendFds(pair.daemon, 64);
  const ReceivedPacket packet = **pair.client.Receive();
  ASSERT_EQ(packet.fds.size(), 64u);
  EXPECT_FALSE(packet.fds_lost);
  EXPECT_EQ(fcntl(packet.fds[63].get(), F_GETFD), FD_CLOEXEC);
}

TEST(HandleSocketTest, FdsThatThisProcessHasNoRoomForAreMissed) {
  Pair pair = Connected();
  SendFds(pair.daemon, 64);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  tight.rlim_cur = static_cast<rlim_t>(dup(pair.daemon.get())) + 8;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &tight), 0);
  const auto packet = pair.client.Receive();
  setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(packet.ok());
  EXPECT_TRUE((**packet).fds_lost);
  EXPECT_LT((**packet).fds.size(), 64u);
}

TEST(HandleSocketTest, TheEndOfTheConnectionIsToldOnBothWays) {
  Pair pair = Connected();
  pair.daemon.Reset();
  EXPECT_EQ(ErrorReason(pair.client.Receive().status()), "DAEMON_GONE");
  EXPECT_EQ(ErrorReason(pair.client.Send("x").status()), "DAEMON_GONE");
}

TEST(HandleSocketTest, LastWordsAreHeardThoughTheDaemonDidNotHearOurs) {
  Pair pair = Connected();
  ASSERT_TRUE(*pair.client.Send("never read"));
  ASSERT_EQ(send(pair.daemon.get(), "last", 4, 0), 4);
  pair.daemon.Reset();
  const auto packet = pair.client.Receive();
  ASSERT_TRUE(packet.ok()) << packet.status();
  EXPECT_EQ((**packet).bytes, "last");
  EXPECT_EQ(ErrorReason(pair.client.Receive().status()), "DAEMON_GONE");
}

TEST(HandleSocketTest, ADaemonThatDoesNotReadMakesPacketsWait) {
  Pair pair = Connected();
  const std::string packet(HandleSocket::kMaxPacket, 'x');
  int sent = 0;
  while (*pair.client.Send(packet)) ++sent;
  EXPECT_GT(sent, 0);
}

}  // namespace
}  // namespace tenure::client
