// Fetches of memory that its device is slow to export, or does not export at all: promise 8.

#include <future>
#include <gmock/gmock.h>
#include <string>
#include <sys/socket.h>
#include <sys/time.h>
#include <utility>
#include <vector>

#include "tests/core/device/process_view.h"
#include "tests/server/handle_fixture.h"
#include "tests/support/small_device.h"

namespace tenure {
namespace {

class HandleExportTest : public HandleTest {
 protected:
  // Two devices; "slow" is on the one whose exports are held, "m" on the other.
  void StartHeld() {
    std::vector<std::unique_ptr<Device>> devices;
    for (const char* name : {"host:0", "host:1"}) {
      auto device = std::make_unique<SmallDevice>(name);
      hardware_.push_back(device.get());
      devices.push_back(std::move(device));
    }
    StartOn(std::move(devices));
    Load("slow", 2);
    Load("m", 2, "host:1");
    fds_before_ = OpenFds();
    hardware_[0]->HoldExports(true);
  }
  void TearDown() override {
    hardware_[0]->HoldExports(false);
    HandleTest::TearDown();
  }

  // A client whose fetch hangs in the device.
  HandleClient ConnectAndHang() {
    HandleClient client = Connect();
    client.Join();
    lease_ = Acquire(client.session(), "slow");
    client.SayFetch(lease_, 0);
    EXPECT_TRUE(hardware_[0]->AwaitHeldExport());
    return client;
  }

  void ExpectOthersGoOn() {
    HandleClient other = Connect();
    other.Join();
    EXPECT_TRUE(other.IsServed());
    EXPECT_TRUE(IsLive(other.session(), Acquire(other.session(), "slow")));
    std::vector<UniqueFd> fds;
    const uint64_t share = other.FetchAll(Acquire(other.session(), "m"), fds);
    EXPECT_EQ(fds.size(), 2);
    EXPECT_TRUE(other.IsServed());
    other.SayUnmapped({share});
    other.SayGoodbye();
  }

  // The device works again, and is done with what it had been asked for.
  void LetGo() {
    hardware_[0]->HoldExports(false);
    HandleClient last = Connect();
    last.Join();
    std::vector<UniqueFd> fds;
    const uint64_t share = last.FetchAll(Acquire(last.session(), "slow"), fds);
    fds.clear();
    last.SayUnmapped({share});
    last.SayGoodbye();
    last.HangUp();
    EXPECT_TRUE(Ends(last.session()));
  }
  // Nothing was sent to the client, whose connection is open.
  static void ExpectSilence(HandleClient& client) {
    EXPECT_FALSE(client.Hear(0).has_value());
    EXPECT_FALSE(client.ended());
  }
  uint32_t Shares(SessionId session) const { return store_->UseBy(session).shares; }

  std::vector<SmallDevice*> hardware_;
  LeaseId lease_;
  size_t fds_before_ = 0;
};

TEST_F(HandleExportTest, WhileAFetchHangsEverybodyElseIsServed) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  ExpectOthersGoOn();
  EXPECT_TRUE(client.IsServed());
  hardware_[0]->HoldExports(false);
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.share_batch().lease_id(), lease_.value());
  EXPECT_EQ(heard->fds.size(), 2);
  EXPECT_EQ(Shares(client.session()), 1);
}

TEST_F(HandleExportTest, AClientThatDiesWhileItsFetchHangsLeavesNothing) {
  ClientProcess client;
  StartHeld();
  const SessionId session = client.Join(options_.path);
  client.Ask(Acquire(session, "slow"));
  ASSERT_TRUE(hardware_[0]->AwaitHeldExport());
  EXPECT_EQ(Shares(session), 1);
  client.Kill();
  EXPECT_TRUE(Ends(session));
  EXPECT_EQ(store_->UseBy(session), RegionUse{});
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().live_leases, 0);
  ExpectOthersGoOn();

  ASSERT_TRUE(store_->Unload("slow", {}, "").ok());
  store_->Tick();
  EXPECT_EQ(LedgerNow().cached, Bytes(0));
  hardware_[0]->HoldExports(false);
  EXPECT_TRUE(Eventually([&] {
    store_->Tick();
    return LedgerNow().cached == kSegment * 2;
  }));
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= fds_before_; }));
}

TEST_F(HandleExportTest, AClientThatLeavesWhileItsFetchHangsIsNotWaitedFor) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  client.SayGoodbye();
  EXPECT_TRUE(Ends(client.session()));
  LetGo();
  EXPECT_FALSE(client.Hear().has_value());
}

TEST_F(HandleExportTest, AProcessThatHungUpWhileItsFetchHangsMapsNothing) {
  options_.death_grace = std::chrono::milliseconds(1);
  StartHeld();
  HandleClient client = ConnectAndHang();
  client.HangUp();
  EXPECT_TRUE(Ends(client.session()));
  LetGo();
}

TEST_F(HandleExportTest, ASessionThatBecomesDeafWhileItsFetchHangsGetsNothing) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  client.SayBytes("");
  EXPECT_TRUE(Reaches(client.session(), SessionState::kDeaf));
  EXPECT_TRUE(Eventually([&] { return Shares(client.session()) == 0; }));
  EXPECT_TRUE(IsLive(client.session(), lease_));
  LetGo();
  ExpectSilence(client);
  Pass(std::chrono::seconds(30));
  EXPECT_EQ(store_->UseBy(client.session()), RegionUse{});
}

TEST_F(HandleExportTest, AFetchWhileAnotherIsBeingAnsweredBreaksTheProtocol) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  client.SayFetch(Acquire(client.session(), "m"), 0);
  EXPECT_TRUE(Reaches(client.session(), SessionState::kDeaf));
}

TEST_F(HandleExportTest, ALeaseThatExpiresWhileItsFetchHangsGetsNoFds) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  Pass(std::chrono::seconds(30));
  EXPECT_EQ(client.Hear()->packet.lease_lost().lease_id(), lease_.value());
  hardware_[0]->HoldExports(false);
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.share_refused().reason(), "LEASE_EXPIRED");
  EXPECT_TRUE(heard->fds.empty());
  EXPECT_EQ(store_->UseBy(client.session()), RegionUse{});
}

TEST_F(HandleExportTest, AFetchFromADeviceThatIsLostIsRefusedThoughItHangsOn) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  HandleClient next = Connect();
  next.Join();
  next.SayFetch(Acquire(next.session(), "slow"), 0);
  ASSERT_TRUE(next.IsServed());
  hardware_[0]->Lose();
  store_->Tick();
  for (HandleClient* waiting : {&client, &next}) {
    const std::optional<HandleClient::Heard> heard = waiting->Hear();
    ASSERT_TRUE(heard.has_value());
    EXPECT_EQ(heard->packet.share_refused().reason(), "DEVICE_LOST");
    EXPECT_EQ(waiting->Hear()->packet.lease_lost().reason(), "DEVICE_LOST");
    EXPECT_EQ(store_->UseBy(waiting->session()), RegionUse{});
    // It may ask for more.
    std::vector<UniqueFd> fds;
    waiting->FetchAll(Acquire(waiting->session(), "m"), fds);
    EXPECT_EQ(fds.size(), 2);
  }
  hardware_[0]->HoldExports(false);
  EXPECT_TRUE(Eventually([&] { return hardware_[0]->counters().exports == 2; }));
  EXPECT_TRUE(client.IsServed());
}

TEST_F(HandleExportTest, WhoStopsReadingWhileItsFetchHangsCostsNoFds) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  const timeval patience{.tv_sec = kPatienceMs / 1000, .tv_usec = 0};
  setsockopt(client.socket(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  while (server_.counters().packets_dropped == 0) ASSERT_TRUE(client.SayHeartbeat(1));
  LetGo();
  EXPECT_TRUE(Eventually([&] { return Shares(client.session()) == 0; }));
  const size_t clients = 2 + 1;  // both ends of its connection, and its pidfd
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= fds_before_ + clients; }));
  EXPECT_TRUE(IsLive(client.session(), lease_));

  // Once it reads, it gets the rest of what was queued, and then its memory.
  std::optional<HandleClient::Heard> heard;
  do {
    heard = client.Hear();
    ASSERT_TRUE(heard.has_value());
  } while (heard->packet.has_heartbeat_reply());
  EXPECT_EQ(heard->fds.size(), 2);
  EXPECT_EQ(Shares(client.session()), 1);
}

TEST_F(HandleExportTest, TheServerStopsThoughAFetchHangs) {
  StartHeld();
  HandleClient client = ConnectAndHang();
  std::future<void> stopped = std::async(std::launch::async, [this] { server_.Stop(); });
  EXPECT_EQ(stopped.wait_for(std::chrono::milliseconds(kPatienceMs)), std::future_status::ready);
  EXPECT_TRUE(client.Hear()->packet.has_drain());
  EXPECT_TRUE(client.HearsTheEnd());
  EXPECT_EQ(Shares(client.session()), 0);
  EXPECT_TRUE(IsLive(client.session(), lease_));
  const size_t fds = OpenFds();
  hardware_[0]->HoldExports(false);
  EXPECT_TRUE(Eventually([&] { return hardware_[0]->counters().exports == 2; }));
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= fds; }));
}

}  // namespace
}  // namespace tenure
