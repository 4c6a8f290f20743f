// One connection without an event loop: where no pidfd can be had, and time.

#include "server/handle_connection.h"

#include <array>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <vector>

#include "server/handle_packet.h"
#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

class HandleConnectionTest : public HandleTest {
 protected:
  void SetUp() override {
    Start();
    options_.hello_timeout = std::chrono::seconds(5);
    options_.death_grace = std::chrono::seconds(2);
    std::array<int, 2> pair{};
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    theirs_ = UniqueFd(pair[1]);
    surroundings_.emplace(HandleSurroundings{.store = *store_,
                                             .registry = registry_,
                                             .clock = clock_,
                                             .options = options_,
                                             .counters = counters_,
                                             .buffer = buffer_});
    connection_ =
        std::make_unique<HandleConnection>(*surroundings_, UniqueFd(pair[0]), HandlePeer{});
  }

  void Say(const v1::ClientPacket& packet) {
    const std::string bytes = packet.SerializeAsString();
    ASSERT_EQ(send(theirs_.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
    connection_->OnReadable();
  }
  void SayHello() {
    v1::ClientPacket packet;
    packet.mutable_hello()->set_protocol_version(1);
    Say(packet);
    ASSERT_TRUE(connection_->session().valid());
  }
  void HangUp() {
    theirs_.Reset();
    connection_->OnReadable();
  }
  // Has a Share that its process may still read.
  void Share() {
    Load("m", 1);
    const LeaseId lease = Acquire(connection_->session(), "m");
    ASSERT_TRUE(store_->ExportShare(connection_->session(), lease, 0, 64).ok());
  }

  std::vector<char> buffer_ = std::vector<char>(kMaxPacketBytes);
  HandleCounters counters_;
  std::optional<HandleSurroundings> surroundings_;
  UniqueFd theirs_;
  std::unique_ptr<HandleConnection> connection_;
};

TEST_F(HandleConnectionTest, WithoutPidfdAHangUpAndTheGraceCountAsDeath) {
  SayHello();
  Share();
  EXPECT_EQ(connection_->deadline(), kNever);
  HangUp();
  EXPECT_TRUE(connection_->hung_up());
  EXPECT_EQ(connection_->deadline(), clock_.Now() + std::chrono::seconds(2));
  EXPECT_EQ(store_->UseBy(connection_->session()).quarantined_shares, 1);
  clock_.Advance(std::chrono::seconds(2));
  connection_->OnDeadline();
  EXPECT_TRUE(connection_->finished());
  EXPECT_EQ(store_->UseBy(connection_->session()).shares, 0);
  EXPECT_EQ(registry_.clients_lost(), 1);
}

TEST_F(HandleConnectionTest, WithoutPidfdAGoodbyeWithSharesWaitsForTheHangUp) {
  SayHello();
  Share();
  v1::ClientPacket goodbye;
  goodbye.mutable_goodbye();
  Say(goodbye);
  EXPECT_FALSE(connection_->hung_up());
  EXPECT_EQ(connection_->deadline(), kNever);
  HangUp();
  clock_.Advance(std::chrono::seconds(2));
  connection_->OnDeadline();
  EXPECT_TRUE(connection_->finished());
  EXPECT_EQ(registry_.clients_lost(), 0);
}

TEST_F(HandleConnectionTest, ADeadlineThatHasNotPassedDoesNothing) {
  clock_.Advance(std::chrono::seconds(4));
  connection_->OnDeadline();
  EXPECT_TRUE(connection_->greeting());
  clock_.Advance(std::chrono::seconds(1));
  connection_->OnDeadline();
  EXPECT_TRUE(connection_->finished());
}

TEST_F(HandleConnectionTest, TakesABoundedNumberOfPacketsAtATime) {
  SayHello();
  v1::ClientPacket heartbeat;
  heartbeat.mutable_heartbeat();
  const std::string bytes = heartbeat.SerializeAsString();
  for (int i = 0; i < 100; ++i) send(theirs_.get(), bytes.data(), bytes.size(), 0);
  connection_->OnReadable();
  EXPECT_EQ(ReceivePacket(connection_->socket(), buffer_).kind, Received::Kind::kPacket);
}

TEST_F(HandleConnectionTest, EventsBeforeTheHelloAreNotForThisClient) {
  connection_->Drain(std::chrono::seconds(1));
  connection_->LeaseLost(LeaseId(1), RegionId(1));
  EXPECT_EQ(ReceivePacket(theirs_.get(), buffer_).kind, Received::Kind::kNothing);
}

}  // namespace
}  // namespace tenure
