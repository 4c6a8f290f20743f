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

// Keeps what came of exports. Thread-safe.
class KeptExports final : public SessionEvents {
 public:
  struct Kept {
    ExportId id;
    StatusOr<ExportedBatch> batch;
  };

  void OnRecall(SessionId, ShareSerial, RegionId, Duration) override {}
  void OnLeaseLost(SessionId, LeaseId, RegionId, Reason) override {}
  void OnPoolRecall(SessionId, PoolId, std::span<const ShareSerial>, Duration) override {}
  void OnMemoryWanted(SessionId, PoolId, Bytes) override {}
  void OnPoolLost(SessionId, PoolId, Reason) override {}
  void OnExported(SessionId, ExportId id, StatusOr<ExportedBatch> batch) override {
    const MutexLock lock(mutex_);
    kept_.push_back({id, std::move(batch)});
    changed_.NotifyAll();
  }

  Kept Await() {
    const MutexLock lock(mutex_);
    while (kept_.empty()) changed_.Wait(mutex_);
    Kept kept = std::move(kept_.front());
    kept_.erase(kept_.begin());
    return kept;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<Kept> kept_ ABSL_GUARDED_BY(mutex_);
};

class HandleConnectionTest : public HandleTest {
 protected:
  SessionEvents& Events() override { return exports_; }

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
  // Says nothing if there is nothing to hear.
  v1::DaemonPacket Hear() {
    v1::DaemonPacket packet;
    const ssize_t size = recv(theirs_.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (size > 0) {
      EXPECT_TRUE(packet.ParseFromArray(buffer_.data(), static_cast<int>(size)));
    }
    return packet;
  }
  void SayFetch(LeaseId lease, uint32_t first) {
    v1::ClientPacket packet;
    packet.mutable_fetch_share()->set_lease_id(lease.value());
    packet.mutable_fetch_share()->set_first_segment(first);
    Say(packet);
  }
  void SayUnmapped(uint64_t share) {
    v1::ClientPacket packet;
    packet.mutable_unmapped()->add_share_serials(share);
    Say(packet);
  }
  // Has asked for the memory of a new lease and got to hear nothing, though its export is over.
  KeptExports::Kept FetchAndAwait() {
    SayHello();
    EXPECT_TRUE(Hear().has_welcome());
    Load("m", 1);
    lease_ = Acquire(connection_->session(), "m");
    SayFetch(lease_, 0);
    return exports_.Await();
  }
  void Deliver(const KeptExports::Kept& kept) { connection_->Exported(kept.id, kept.batch); }
  uint32_t Shares() const { return store_->UseBy(connection_->session()).shares; }
  // Has a Share that its process may still read.
  void Share() { Deliver(FetchAndAwait()); }

  KeptExports exports_;
  LeaseId lease_;
  std::vector<char> buffer_ = std::vector<char>(kMaxPacketBytes);
  HandleCounters counters_;
  std::optional<HandleSurroundings> surroundings_;
  UniqueFd theirs_;
  std::unique_ptr<HandleConnection> connection_;
};

TEST_F(HandleConnectionTest, WithoutPidfdAHangUpAndTheGraceCountAsDeath) {
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
  v1::DaemonPacket lost;
  lost.mutable_lease_lost()->set_lease_id(1);
  connection_->Tell(lost);
  EXPECT_EQ(ReceivePacket(theirs_.get(), buffer_).kind, Received::Kind::kNothing);
}

TEST_F(HandleConnectionTest, ABatchIsSentWhenItsExportIsOver) {
  const KeptExports::Kept kept = FetchAndAwait();
  EXPECT_EQ(Hear().packet_case(), v1::DaemonPacket::PACKET_NOT_SET);
  EXPECT_EQ(Shares(), 1);
  Deliver(kept);
  const v1::DaemonPacket heard = Hear();
  EXPECT_EQ(heard.share_batch().lease_id(), lease_.value());
  EXPECT_EQ(heard.share_batch().segment_sizes_size(), 1);
  EXPECT_EQ(Shares(), 1);
  // Once, whoever tells it twice.
  Deliver(kept);
  EXPECT_EQ(Hear().packet_case(), v1::DaemonPacket::PACKET_NOT_SET);
}

TEST_F(HandleConnectionTest, AnExportOfAnotherFetchIsNotSent) {
  const KeptExports::Kept kept = FetchAndAwait();
  connection_->Exported(ExportId(kept.id.value() + 1), kept.batch);
  EXPECT_EQ(Hear().packet_case(), v1::DaemonPacket::PACKET_NOT_SET);
  Deliver(kept);
  EXPECT_TRUE(Hear().has_share_batch());
}

TEST_F(HandleConnectionTest, WhatWasExportedForALeaseThatHasExpiredIsNotSent) {
  const KeptExports::Kept kept = FetchAndAwait();
  Pass(std::chrono::seconds(30));
  EXPECT_EQ(store_->UseBy(connection_->session()).quarantined_shares, 1);
  Deliver(kept);
  EXPECT_EQ(Hear().share_refused().reason(), "LEASE_EXPIRED");
  EXPECT_EQ(Shares(), 0);
}

TEST_F(HandleConnectionTest, WhatWasExportedUnderAShareThatHasEndedIsNotSent) {
  const KeptExports::Kept kept = FetchAndAwait();
  SayUnmapped(std::get<ShareExport>(*kept.batch).share.serial.value());
  EXPECT_EQ(Shares(), 0);
  Deliver(kept);
  EXPECT_EQ(Hear().share_refused().reason(), "CANCELLED");
  EXPECT_EQ(Shares(), 0);
}

TEST_F(HandleConnectionTest, WhatWasExportedForASessionThatBecameDeafIsNotSent) {
  const KeptExports::Kept kept = FetchAndAwait();
  Say(v1::ClientPacket());
  EXPECT_EQ(registry_.Find(connection_->session())->state, SessionState::kDeaf);
  EXPECT_EQ(Shares(), 0);
  Deliver(kept);
  EXPECT_EQ(Hear().packet_case(), v1::DaemonPacket::PACKET_NOT_SET);
  EXPECT_EQ(Shares(), 0);
}

TEST_F(HandleConnectionTest, AConnectionThatIsDroppedLeavesNoShareOfAnExport) {
  const KeptExports::Kept kept = FetchAndAwait();
  const SessionId session = connection_->session();
  connection_.reset();
  EXPECT_EQ(store_->UseBy(session).shares, 0);
  EXPECT_TRUE(IsLive(session, lease_));
}

// The answer has its place behind what is queued, and is not lost if there is no room.
TEST_F(HandleConnectionTest, ARefusalWaitsUntilTheClientReads) {
  const KeptExports::Kept kept = FetchAndAwait();
  while (counters_.packets_dropped == 0) connection_->Drain(std::chrono::seconds(1));
  ASSERT_TRUE(store_->Release(connection_->session(), lease_).ok());
  Deliver(kept);
  EXPECT_EQ(Shares(), 0);
  v1::DaemonPacket heard = Hear();
  while (heard.has_drain()) {
    connection_->OnWritable();
    heard = Hear();
  }
  EXPECT_EQ(heard.share_refused().reason(), "LEASE_NOT_FOUND");
}

}  // namespace
}  // namespace tenure
