// Hello, heartbeats, goodbye, and what happens to those who break the protocol.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <random>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "tests/core/device/process_view.h"
#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

using ::testing::ElementsAre;

class HandleSessionTest : public HandleTest {
 protected:
  // Everybody who breaks the protocol in one way is treated as `offend` is: heard no more, not hung
  // up on, without a working token; and nobody else notices.
  void ExpectDeafAfter(const std::function<void(HandleClient&)>& offend) {
    HandleClient innocent = Connect();
    innocent.Join();
    HandleClient offender = Connect();
    const std::string token = offender.Join().token();
    const uint64_t breaks = server_.counters().protocol_breaks;
    offend(offender);
    EXPECT_TRUE(Reaches(offender.session(), SessionState::kDeaf));
    EXPECT_EQ(server_.counters().protocol_breaks, breaks + 1);
    EXPECT_EQ(registry_.Authenticate(token), std::nullopt);
    offender.SayHeartbeat(1);
    offender.SayGoodbye();
    EXPECT_TRUE(innocent.IsServed());
    EXPECT_FALSE(offender.Hear(50).has_value());
    EXPECT_FALSE(offender.ended());
    EXPECT_EQ(registry_.Find(offender.session())->state, SessionState::kDeaf);
  }
};

TEST_F(HandleSessionTest, HelloIsAnsweredWithAWelcome) {
  options_.heartbeat_interval = std::chrono::milliseconds(2500);
  Start();
  HandleClient client = Connect();
  const v1::Welcome welcome = client.Join();
  EXPECT_EQ(welcome.protocol_version(), 1);
  EXPECT_EQ(welcome.boot_id(), options_.boot_id);
  EXPECT_EQ(welcome.heartbeat_interval().seconds(), 2);
  EXPECT_EQ(welcome.heartbeat_interval().nanos(), 500'000'000);
  EXPECT_EQ(registry_.Authenticate(welcome.token()), SessionId(welcome.session_id()));
  const std::optional<SessionView> view = registry_.Find(client.session());
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->identity.program, "tester");
  EXPECT_EQ(view->identity.instance, "7");
  EXPECT_EQ(view->identity.uid, geteuid());
  EXPECT_EQ(view->identity.pid, getpid());
}

TEST_F(HandleSessionTest, AnotherVersionIsToldOursAndHungUpOn) {
  Start();
  HandleClient client = Connect();
  client.SayHello(2);
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.welcome().protocol_version(), 1);
  EXPECT_EQ(heard->packet.welcome().session_id(), 0);
  EXPECT_EQ(heard->packet.welcome().token(), "");
  EXPECT_TRUE(client.HearsTheEnd());
  EXPECT_THAT(registry_.CountByState(), ElementsAre(0, 0, 0));
}

TEST_F(HandleSessionTest, WhoeverBeginsOtherwiseIsHungUpOn) {
  Start();
  v1::ClientPacket long_name;
  long_name.mutable_hello()->set_protocol_version(1);
  long_name.mutable_hello()->set_program(std::string(65, 'x'));
  v1::ClientPacket heartbeat;
  heartbeat.mutable_heartbeat();
  for (const std::string& first :
       {std::string(), std::string("\xff\xff\xff"), long_name.SerializeAsString(),
        heartbeat.SerializeAsString(), std::string((64 << 10) + 1, 'x')}) {
    HandleClient client = Connect();
    client.SayBytes(first);
    EXPECT_TRUE(client.HearsTheEnd());
  }
  EXPECT_EQ(server_.counters().connections_refused, 5);
  EXPECT_THAT(registry_.CountByState(), ElementsAre(0, 0, 0));
}

TEST_F(HandleSessionTest, NamesCannotSpoilATerminal) {
  Start();
  HandleClient client = Connect();
  client.SayHello(1, "evil\x1b[2J\n");
  ASSERT_TRUE(client.Hear().has_value());
  EXPECT_EQ(registry_.Sessions().at(0).identity.program, "evil?[2J?");
}

TEST_F(HandleSessionTest, WhoeverSaysNothingIsHungUpOnInTime) {
  options_.hello_timeout = std::chrono::milliseconds(50);
  Start();
  HandleClient silent = Connect();
  EXPECT_TRUE(silent.HearsTheEnd());
}

TEST_F(HandleSessionTest, OfTooManyThatSayNothingTheOldestGoes) {
  options_.max_greeting = 2;
  options_.hello_timeout = std::chrono::hours(1);
  Start();
  HandleClient oldest = Connect();
  HandleClient old = Connect();
  HandleClient newest = Connect();
  EXPECT_TRUE(oldest.HearsTheEnd());
  old.Join();
  newest.Join();
}

TEST_F(HandleSessionTest, TooManySessionsAreRefusedUntilOneEnds) {
  Start();
  std::vector<HandleClient> clients;
  for (int i = 0; i < 300; ++i) {
    clients.push_back(Connect());
    clients.back().Join();
  }
  HandleClient refused = Connect();
  refused.SayHello();
  const std::optional<HandleClient::Heard> heard = refused.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.welcome().session_id(), 0);
  EXPECT_TRUE(refused.HearsTheEnd());
  clients[7].SayGoodbye();
  ASSERT_TRUE(Ends(clients[7].session()));
  Connect().Join();
}

// Field case 51.
TEST_F(HandleSessionTest, HeartbeatsKeepLeasesAlive) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  const LeaseId lease = Acquire(client.session(), "m");
  for (int i = 0; i < 5; ++i) {
    Pass(std::chrono::seconds(20));
    ASSERT_TRUE(client.IsServed());
  }
  EXPECT_TRUE(IsLive(client.session(), lease));
  EXPECT_EQ(registry_.Find(client.session())->silent_for, Duration::zero());
  Pass(std::chrono::seconds(31));
  EXPECT_FALSE(IsLive(client.session(), lease));
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.lease_lost().lease_id(), lease.value());
  EXPECT_EQ(heard->packet.lease_lost().reason(), "LEASE_EXPIRED");
  EXPECT_TRUE(client.IsServed());
}

TEST_F(HandleSessionTest, BreakersOfTheProtocolAreHeardNoMore) {
  Start();
  const UniqueFd gift(open("/dev/null", O_RDONLY | O_CLOEXEC));
  v1::ClientPacket heartbeat;
  heartbeat.mutable_heartbeat();
  ExpectDeafAfter([](HandleClient& client) { client.SayBytes(""); });
  ExpectDeafAfter([](HandleClient& client) { client.SayBytes("\xff\xff\xff"); });
  ExpectDeafAfter([](HandleClient& client) { client.SayBytes("\x0a\x7f"); });  // cut short
  ExpectDeafAfter(
      [](HandleClient& client) { client.SayBytes("\x7a\x01x"); });  // says nothing we know
  ExpectDeafAfter([](HandleClient& client) { client.SayBytes(std::string(65'537, '\x0a')); });
  ExpectDeafAfter([](HandleClient& client) { client.SayHello(); });
  ExpectDeafAfter([](HandleClient& client) { client.SayAck(1, 1); });
  ExpectDeafAfter(
      [&](HandleClient& client) { client.SayBytes(heartbeat.SerializeAsString(), {gift.get()}); });
}

TEST_F(HandleSessionTest, LeasesOfADeafSessionRunOut) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  const LeaseId lease = Acquire(client.session(), "m");
  std::vector<UniqueFd> fds;
  client.FetchAll(lease, fds);
  client.SayBytes("");
  ASSERT_TRUE(Reaches(client.session(), SessionState::kDeaf));
  EXPECT_TRUE(IsLive(client.session(), lease));
  Pass(std::chrono::seconds(20));
  client.SayHeartbeat(1);
  Pass(std::chrono::seconds(11));
  EXPECT_FALSE(IsLive(client.session(), lease));
  EXPECT_EQ(store_->UseBy(client.session()).quarantined_shares, 1);
  EXPECT_FALSE(client.Hear(50).has_value());
  EXPECT_FALSE(client.ended());
}

TEST_F(HandleSessionTest, RandomPacketsDoNoHarm) {
  Start();
  HandleClient innocent = Connect();
  innocent.Join();
  std::minstd_rand random(17);
  for (int i = 0; i < 200; ++i) {
    HandleClient client = Connect();
    if (i % 4 != 0) client.Join();
    const int packets = 1 + static_cast<int>(random() % 5);
    for (int j = 0; j < packets; ++j) {
      std::string bytes(random() % 40, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      // A third of them have the shape of a packet of ours.
      if (bytes.size() > 2 && random() % 3 == 0) {
        bytes[0] = static_cast<char>((1 + random() % 6) << 3 | 2);
        bytes[1] = static_cast<char>(bytes.size() - 2);
      }
      if (!client.SayBytes(bytes)) break;
    }
  }
  EXPECT_TRUE(innocent.IsServed());
}

TEST_F(HandleSessionTest, GoodbyeWithNothingMappedEndsTheSessionAtOnce) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  const std::string token = client.Join().token();
  const LeaseId lease = Acquire(client.session(), "m");
  client.SayGoodbye();
  EXPECT_TRUE(Ends(client.session()));
  EXPECT_TRUE(client.HearsTheEnd());
  EXPECT_FALSE(IsLive(client.session(), lease));
  EXPECT_EQ(registry_.Authenticate(token), std::nullopt);
  EXPECT_EQ(registry_.clients_lost(), 0);
  EXPECT_TRUE(HasReason(store_->Acquire(client.session(), "m", "", {}, "").status(),
                        Reason::kSessionUnknown));
}

TEST_F(HandleSessionTest, WhatIsMappedAtGoodbyeIsQuarantined) {
  Start();
  Load("m", 1);
  HandleClient client = Connect();
  client.Join();
  std::vector<UniqueFd> fds;
  client.FetchAll(Acquire(client.session(), "m"), fds);
  client.SayGoodbye();
  EXPECT_TRUE(Reaches(client.session(), SessionState::kGone));
  EXPECT_TRUE(Eventually([&] { return store_->UseBy(client.session()).quarantined_shares == 1; }));
}

TEST_F(HandleSessionTest, EverybodyIsToldWhenTheDaemonStops) {
  Start();
  HandleClient client = Connect();
  client.Join();
  server_.Drain(std::chrono::seconds(30));
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value());
  EXPECT_EQ(heard->packet.drain().deadline().seconds(), 30);
  EXPECT_TRUE(client.IsServed());
  server_.Stop();
  const std::optional<HandleClient::Heard> last = client.Hear();
  ASSERT_TRUE(last.has_value());
  EXPECT_TRUE(last->packet.has_drain());
  EXPECT_EQ(last->packet.drain().deadline().seconds(), 0);
  EXPECT_TRUE(client.HearsTheEnd());
  EXPECT_FALSE(std::filesystem::exists(options_.path));
}

TEST_F(HandleSessionTest, WhatIsPostedAfterStopIsDropped) {
  Start();
  HandleClient client = Connect();
  client.Join();
  server_.Stop();
  server_.OnLeaseLost(client.session(), LeaseId(1), RegionId(1), Reason::kLeaseExpired);
  server_.Drain(Duration::zero());
}

// Field case 17: out of fds the daemon refuses, and recovers.
TEST_F(HandleSessionTest, WithoutFdsNewcomersAreRefusedAndTheOthersServed) {
  Start();
  Load("m", 2);
  HandleClient served = Connect();
  served.Join();
  const LeaseId lease = Acquire(served.session(), "m");
  {
    const SoftLimit limit(RLIMIT_NOFILE, 64);
    std::vector<UniqueFd> hoard;
    do {
      hoard.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    } while (hoard.back().valid());
    served.SayFetch(lease, 0);
    EXPECT_EQ(served.Hear()->packet.share_refused().reason(), "BACKEND");
    EXPECT_EQ(store_->UseBy(served.session()).shares, 0);
    hoard.pop_back();
    hoard.pop_back();  // for the newcomer's own end
    HandleClient newcomer = Connect();
    const std::optional<HandleClient::Heard> refusal = newcomer.Hear();
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->packet.welcome().boot_id(), options_.boot_id);
    EXPECT_EQ(refusal->packet.welcome().session_id(), 0U);
    EXPECT_TRUE(newcomer.HearsTheEnd());
    EXPECT_TRUE(served.IsServed());
  }
  std::vector<UniqueFd> fds;
  served.FetchAll(lease, fds);
  EXPECT_EQ(fds.size(), 2);
  Connect().Join();
}

TEST_F(HandleSessionTest, AServerThatCannotListenSaysWhy) {
  options_.path = directory_ / "no/where";
  StatusOr<std::unique_ptr<Device>> device = MakeHostDevice({.name = "host:0", .total = MiB(4)});
  ASSERT_TRUE(device.ok());
  std::vector<DeviceOptions> devices;
  DeviceStoreOptions weights;
  weights.weights_capacity = MiB(4);
  devices.push_back({.device = *std::move(device), .store = weights});
  Store store({}, std::move(devices), clock_, *files_, server_);
  EXPECT_TRUE(HasReason(server_.Start(store, options_), Reason::kBackend));
  options_.path = directory_ / "handle.sock";
  EXPECT_TRUE(server_.Start(store, options_).ok());
  Connect().Join();
  server_.Stop();
}

}  // namespace
}  // namespace tenure
