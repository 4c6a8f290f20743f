// Clients that are killed between two steps of getting their memory.

#include <gtest/gtest.h>
#include <signal.h>
#include <string>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/program.h"
#include "tests/e2e/models.h"
#include "tests/e2e/rogue_client.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/socket_relay.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

class UnfinishedTest : public ::testing::Test {
 protected:
  UnfinishedTest() { EXPECT_TRUE(client_.Load({.name = "a", .path = a_.path}).ok()); }

  uint64_t Leases() const { return Scrape::Of(daemon_.metrics_address()).Value("tenure_leases"); }
  // Nothing is leased and nothing in quarantine, and the memory is as good as ever.
  void ExpectAllIsBack() const {
    EXPECT_TRUE(Eventually([&] { return Leases() == 0; }));
    EXPECT_TRUE(Eventually([&] { return client_.Sessions()->size() == 1; }));
    EXPECT_EQ(Scrape::Of(daemon_.metrics_address()).Memory("quarantined"), 0u);
    const auto lease = client_.Acquire({.name = "a"});
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_EQ(Difference(*lease, a_), "");
  }

  const Tenured daemon_;
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(4)}, 1);
  const Client client_ = daemon_.Connect();
};

// Field case 16.
TEST_F(UnfinishedTest, KilledBeforeItAskedForItsMemory) {
  RogueClient rogue(daemon_, "a", "no-fetch");
  EXPECT_EQ(Leases(), 1u);
  rogue.Kill();
  ExpectAllIsBack();
}

// Field case 16.
TEST_F(UnfinishedTest, KilledBetweenTheFdsAndTheirAcknowledgement) {
  RogueClient rogue(daemon_, "a", "no-ack");
  EXPECT_EQ(Leases(), 1u);
  rogue.Kill();
  ExpectAllIsBack();
}

// Field case 16.
TEST_F(UnfinishedTest, KilledBetweenItsRequestAndTheReply) {
  SocketRelay relay(daemon_.directory());
  const TempDir temp;
  Program holder({LEASE_HOLDER_PATH, relay.directory(), "a", a_.path, "30000", "more"},
                 temp / "holder");
  ASSERT_TRUE(Eventually([&] { return holder.Out() == "ready\n"; }));
  relay.HoldReplies();
  kill(holder.pid(), SIGUSR1);
  // Granted, and the client does not know.
  ASSERT_TRUE(Eventually([&] { return Leases() == 2; }));
  EXPECT_EQ(holder.Out(), "ready\n");
  kill(holder.pid(), SIGKILL);
  holder.Wait();
  ExpectAllIsBack();
}

}  // namespace
}  // namespace tenure
