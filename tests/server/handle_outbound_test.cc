#include "server/handle_outbound.h"

#include <array>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>

namespace tenure {
namespace {

class OutboundTest : public ::testing::Test {
 protected:
  OutboundTest() {
    std::array<int, 2> pair{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    ours_ = UniqueFd(pair[0]);
    theirs_ = UniqueFd(pair[1]);
  }

  bool Flush() { return outbound_.Flush(ours_.get(), Instant()); }
  std::string TheyRead() {
    std::string packet(kMaxPacketBytes, '\0');
    const ssize_t size = recv(theirs_.get(), packet.data(), packet.size(), MSG_DONTWAIT);
    packet.resize(size < 0 ? 0 : static_cast<size_t>(size));
    return packet;
  }

  UniqueFd ours_;
  UniqueFd theirs_;
  HandleOutbound outbound_;
};

TEST_F(OutboundTest, SendsInOrder) {
  EXPECT_TRUE(outbound_.Add("a"));
  EXPECT_TRUE(outbound_.Add("b"));
  EXPECT_TRUE(Flush());
  EXPECT_EQ(TheyRead(), "a");
  EXPECT_EQ(TheyRead(), "b");
}

TEST_F(OutboundTest, WaitsForAReaderAndLosesNothingItTook) {
  int taken = 0;
  const auto packet = [](int number) { return std::to_string(number) + std::string(8000, ' '); };
  while (outbound_.Add(packet(taken))) {
    ++taken;
    Flush();
  }
  EXPECT_TRUE(outbound_.wants_to_write());
  EXPECT_FALSE(Flush());
  for (int i = 0; i < taken; ++i) {
    ASSERT_EQ(TheyRead(), packet(i));
    outbound_.OnWritable();
    Flush();
  }
  EXPECT_FALSE(outbound_.wants_to_write());
  EXPECT_TRUE(Flush());
}

TEST_F(OutboundTest, HoldsABoundedNumberAndABoundedSize) {
  for (size_t i = 0; i < HandleOutbound::kMaxPackets; ++i) ASSERT_TRUE(outbound_.Add("x"));
  EXPECT_FALSE(outbound_.Add("x"));
  outbound_.Clear();
  const std::string large(kMaxPacketBytes, 'x');
  for (size_t i = 0; i < HandleOutbound::kMaxBytes / kMaxPacketBytes; ++i) {
    ASSERT_TRUE(outbound_.Add(large));
  }
  EXPECT_FALSE(outbound_.Add("x"));
}

TEST_F(OutboundTest, TakesNothingMoreOnceNobodyReads) {
  theirs_.Reset();
  EXPECT_TRUE(outbound_.Add("x"));
  EXPECT_FALSE(Flush());
  EXPECT_FALSE(outbound_.Add("x"));
  EXPECT_FALSE(outbound_.wants_to_write());
  EXPECT_EQ(outbound_.retry_at(), kNever);
}

}  // namespace
}  // namespace tenure
