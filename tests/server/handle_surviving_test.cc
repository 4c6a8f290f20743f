// Clients that still map memory of an earlier daemon.

#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

v1::Surviving Surviving(const std::string& boot_id, const std::string& device, uint64_t bytes) {
  v1::Surviving surviving;
  v1::SurvivingMemory& memory = *surviving.add_memories();
  memory.set_boot_id(boot_id);
  memory.set_device(device);
  memory.set_bytes(bytes);
  return surviving;
}

class HandleSurvivingTest : public HandleTest {
 protected:
  void SetUp() override { Start(); }

  static void Join(HandleClient& client, const v1::Surviving& surviving) {
    v1::ClientPacket packet;
    packet.mutable_hello()->set_protocol_version(1);
    *packet.mutable_hello()->mutable_surviving() = surviving;
    client.Say(packet);
    const std::optional<HandleClient::Heard> heard = client.Hear();
    ASSERT_TRUE(heard.has_value());
    ASSERT_NE(heard->packet.welcome().session_id(), 0u);
  }
  static void Say(HandleClient& client, const v1::Surviving& surviving) {
    v1::ClientPacket packet;
    *packet.mutable_surviving() = surviving;
    client.Say(packet);
    ASSERT_TRUE(client.IsServed());
  }
  Bytes Stranded() const { return LedgerNow().stranded; }
};

TEST_F(HandleSurvivingTest, IsStrandedFromTheHelloOnUntilTheClientSaysOtherwise) {
  HandleClient client = Connect();
  Join(client, Surviving("earlier", "host:0", MiB(20).count()));
  EXPECT_EQ(Stranded(), MiB(20));
  EXPECT_EQ(LedgerNow().free(), MiB(12));
  Say(client, Surviving("earlier", "host:0", MiB(6).count()));
  EXPECT_EQ(Stranded(), MiB(6));
  Say(client, v1::Surviving());
  EXPECT_EQ(Stranded(), Bytes(0));
}

TEST_F(HandleSurvivingTest, WhatThisDaemonGaveItselfIsNotCountedTwice) {
  HandleClient client = Connect();
  Join(client, Surviving(options_.boot_id, "host:0", MiB(20).count()));
  EXPECT_EQ(Stranded(), Bytes(0));
}

TEST_F(HandleSurvivingTest, StaysStrandedWhenALivingProcessHangsUp) {
  HandleClient client = Connect();
  Join(client, Surviving("earlier", "host:0", MiB(20).count()));
  const SessionId session = registry_.Sessions().front().id;
  client.HangUp();
  EXPECT_TRUE(Reaches(session, SessionState::kGone));
  EXPECT_EQ(Stranded(), MiB(20));
}

TEST_F(HandleSurvivingTest, AbsurdClaimsHurtNobody) {
  HandleClient client = Connect();
  v1::Surviving absurd = Surviving("earlier", "host:0", UINT64_MAX);
  absurd.MergeFrom(Surviving("even earlier", "host:0", UINT64_MAX));
  absurd.MergeFrom(Surviving("earlier", std::string(1000, 'x'), 1));
  Join(client, absurd);
  EXPECT_EQ(Stranded(), MiB(32));
  EXPECT_TRUE(client.IsServed());
  Say(client, v1::Surviving());
  EXPECT_EQ(LedgerNow().free(), MiB(32));
}

}  // namespace
}  // namespace tenure
