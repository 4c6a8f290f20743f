// What can be said on the handle socket that should not be, while others go on with their work.

#include <chrono>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/rogue_client.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/storm.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/traces.h"
#include "tests/e2e/wire_client.h"

namespace tenure {
namespace {

constexpr size_t kWellBehaved = 2;
constexpr int kAttackers = 300;

class HandleMaliceTest : public ::testing::Test {
 protected:
  HandleMaliceTest() { storm_.AwaitChecks(20); }

  // A packet that is wrong in one of many ways.
  std::string RandomPacket() {
    v1::ClientPacket packet;
    switch (Pick(8)) {
      case 0:
        return "";
      case 1:
        return std::string(65'537 + Pick(60'000), 'x');
      case 2: {
        std::string bytes(1 + Pick(200), '\0');
        for (char& byte : bytes) byte = static_cast<char>(Pick(256));
        return bytes;
      }
      case 3:
        packet.mutable_fetch_share()->set_lease_id(Pick(50));
        packet.mutable_fetch_share()->set_first_segment(static_cast<uint32_t>(random_()));
        break;
      case 4:
        packet.mutable_share_ack()->set_share_serial(Pick(50));
        packet.mutable_share_ack()->set_next_segment(static_cast<uint32_t>(Pick(4)));
        break;
      case 5:
        for (int i = 0; i < 1000; ++i) packet.mutable_unmapped()->add_share_serials(Pick(2000));
        break;
      case 6:
        packet.mutable_heartbeat()->set_sequence(random_());
        break;
      default:
        packet.mutable_hello()->set_program(std::string(Pick(200), '\x1b'));
        packet.mutable_hello()->set_protocol_version(static_cast<uint32_t>(Pick(3)));
    }
    std::string bytes = packet.SerializeAsString();
    if (Pick(4) == 0) bytes.resize(bytes.size() / 2);
    return bytes;
  }
  uint64_t Pick(uint64_t count) { return random_() % count; }

  Scrape Metrics() const { return Scrape::Of(daemon_.metrics_address()); }
  bool ServesOthers() const {
    storm_.AwaitChecks(20);
    return client::CheckHealth(daemon_.directory(), std::chrono::seconds(10)).value_or(false);
  }

  const uint64_t seed_ = FromEnvironment("TENURE_STORM_SEED", std::random_device()());
  std::mt19937_64 random_{seed_};
  const Tenured daemon_{
      TenuredSettings{.capacity = "32MiB", .segment_size = "2MiB", .log_level = "error"}};
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(4)}, 1);
  const Client client_ = daemon_.Connect();
  const Storm storm_{daemon_, kWellBehaved, seed_};
};

TEST_F(HandleMaliceTest, RandomPacketsHurtNobodyAndLeaveNothing) {
  std::cout << "seed " << seed_ << std::endl;
  const WeightLease own = LoadAndLease(client_, "a", a_);
  const size_t fds = Traces::Of(daemon_).fds;
  const UniqueFd gift(open("/dev/null", O_RDONLY | O_CLOEXEC));
  for (int i = 0; i < kAttackers; ++i) {
    HandleClient attacker(daemon_.directory() + "/handle.sock");
    if (Pick(4) != 0) attacker.SayHello();
    for (uint64_t packets = 1 + Pick(20); packets > 0; --packets) {
      const std::vector<int> gifts(Pick(10) == 0 ? 1 + Pick(8) : 0, gift.get());
      if (!attacker.SayBytes(RandomPacket(), gifts)) break;
    }
  }
  EXPECT_TRUE(ServesOthers());
  EXPECT_TRUE(own.valid());
  EXPECT_EQ(Difference(own, a_), "");
  // They have hung up, and held nothing. The others' models keep fds of their own meanwhile.
  EXPECT_TRUE(Eventually([&] { return Metrics().Value("tenure_sessions") == 1 + kWellBehaved; }));
  EXPECT_LT(Traces::Of(daemon_).fds, fds + kAttackers / 4);
}

// Room for one model of 12 MiB and nothing else.
TEST(HandleReaderTest, WhoeverStopsReadingWhenMemoryIsRecalledHoldsUpNobody) {
  const Tenured daemon(TenuredSettings{.capacity = "16MiB", .segment_size = "2MiB"});
  const ModelFile a = WriteModel(daemon, "a", {.target = MiB(9)}, 1);
  const ModelFile small = WriteModel(daemon, "small", {.target = MiB(1)}, 2);
  const ModelFile b =
      WriteModel(daemon, "b", {.architecture = Architecture::kGnn, .target = MiB(9)}, 3);
  const Client client = daemon.Connect();
  const WeightLease own = LoadAndLease(client, "small", small);
  ASSERT_TRUE(client.Load({.name = "a", .path = a.path}).ok());
  RogueClient reader(daemon, "a", "no-read");
  ASSERT_TRUE(client.Unload("a").ok());

  const auto loaded =
      client.Load({.name = "b", .path = b.path}, {.timeout = std::chrono::seconds(20)});
  EXPECT_EQ(ErrorReason(loaded.status()), "HELD_BY_LEASES") << loaded.status();
  EXPECT_GT(Scrape::Of(daemon.metrics_address()).Memory("quarantined"), 0u);
  EXPECT_EQ(Scrape::Of(daemon.metrics_address()).Value("tenure_recalls_unanswered_total"), 1u);
  EXPECT_TRUE(client.Acquire({.name = "small"}).ok());
  EXPECT_TRUE(own.valid());
  EXPECT_EQ(Difference(own, small), "");

  reader.Kill();
  EXPECT_TRUE(
      Eventually([&] { return Scrape::Of(daemon.metrics_address()).Memory("quarantined") == 0; }));
  const WeightLease late = LoadAndLease(client, "b", b);
  EXPECT_EQ(Difference(late, b), "");
}

}  // namespace
}  // namespace tenure
