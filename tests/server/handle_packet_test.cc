#include "server/handle_packet.h"

#include <array>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

#include "core/base/unique_fd.h"
#include "tests/core/device/process_view.h"

namespace tenure {
namespace {

using Kind = Received::Kind;

class PacketTest : public ::testing::Test {
 protected:
  PacketTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    ours_ = UniqueFd(pair[0]);
    theirs_ = UniqueFd(pair[1]);
  }

  Received Receive() { return ReceivePacket(ours_.get(), buffer_); }
  void TheySend(const std::string& bytes) {
    EXPECT_EQ(send(theirs_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  }

  UniqueFd ours_;
  UniqueFd theirs_;
  std::vector<char> buffer_ = std::vector<char>(kMaxPacketBytes);
};

TEST_F(PacketTest, ReceivesOnePacketAtATime) {
  TheySend("one");
  TheySend("three");
  Received received = Receive();
  EXPECT_EQ(received.kind, Kind::kPacket);
  EXPECT_EQ(std::string(buffer_.data(), received.size), "one");
  received = Receive();
  EXPECT_EQ(std::string(buffer_.data(), received.size), "three");
  EXPECT_EQ(Receive().kind, Kind::kNothing);
}

TEST_F(PacketTest, TellsAnEmptyPacketFromAHangUp) {
  TheySend("");
  TheySend("after");
  EXPECT_EQ(Receive().kind, Kind::kBroken);
  EXPECT_EQ(Receive().kind, Kind::kPacket);
  EXPECT_EQ(Receive().kind, Kind::kNothing);
  theirs_.Reset();
  EXPECT_EQ(Receive().kind, Kind::kHangUp);
}

TEST_F(PacketTest, AHalfClosedConnectionIsAHangUp) {
  shutdown(theirs_.get(), SHUT_WR);
  EXPECT_EQ(Receive().kind, Kind::kHangUp);
}

TEST_F(PacketTest, ThePacketMayFillTheBufferAndNoMore) {
  TheySend(std::string(kMaxPacketBytes, 'x'));
  TheySend(std::string(kMaxPacketBytes + 1, 'x'));
  const Received received = Receive();
  EXPECT_EQ(received.kind, Kind::kPacket);
  EXPECT_EQ(received.size, kMaxPacketBytes);
  EXPECT_EQ(Receive().kind, Kind::kBroken);
  EXPECT_EQ(Receive().kind, Kind::kNothing);
}

TEST_F(PacketTest, HearsWhatWasSaidBeforeAHangUpThatLeftSomethingUnread) {
  EXPECT_EQ(SendPacket(ours_.get(), "never read", {}), SendResult::kSent);
  TheySend("last words");
  theirs_.Reset();
  EXPECT_EQ(Receive().kind, Kind::kPacket);
  EXPECT_EQ(Receive().kind, Kind::kHangUp);
}

TEST_F(PacketTest, FdsSentToUsNeverArrive) {
  std::vector<UniqueFd> fds;
  fds.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(SendPacket(theirs_.get(), "with a gift", fds), SendResult::kSent);
  const size_t before = OpenFds();
  EXPECT_EQ(Receive().kind, Kind::kBroken);
  EXPECT_EQ(OpenFds(), before);
}

TEST_F(PacketTest, SendsUntilTheOtherSideMustReadFirst) {
  const std::string packet(32 << 10, 'x');
  SendResult result = SendResult::kSent;
  for (int i = 0; i < 1000 && result == SendResult::kSent; ++i) {
    result = SendPacket(ours_.get(), packet, {});
  }
  EXPECT_EQ(result, SendResult::kFull);
  EXPECT_EQ(recv(theirs_.get(), buffer_.data(), buffer_.size(), 0), 32 << 10);
  theirs_.Reset();
  EXPECT_EQ(SendPacket(ours_.get(), packet, {}), SendResult::kGone);
}

}  // namespace
}  // namespace tenure
