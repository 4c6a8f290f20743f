// Clients in PID namespaces of their own, where each of them is process 1.

#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <signal.h>
#include <string>
#include <vector>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/program.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

// The same in a PID namespace of its own, which ends with the returned program.
std::vector<std::string> Contained(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"/usr/bin/unshare", "--pid", "--fork", "--kill-child"});
  return arguments;
}

class NamespaceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Program probe(Contained({"/bin/true"}), temp_ / "probe");
    if (probe.Wait() != 0) GTEST_SKIP() << "no PID namespaces here: " << probe.Err();
  }

  std::unique_ptr<Program> Hold(const std::string& name) const {
    auto holder = std::make_unique<Program>(
        Contained({LEASE_HOLDER_PATH, daemon_.directory(), "a", a_.path, "500", "hold"}),
        temp_ / name);
    EXPECT_TRUE(Eventually([&] { return holder->Out() == "ready\n"; })) << holder->Err();
    return holder;
  }
  Scrape Metrics() const { return Scrape::Of(daemon_.metrics_address()); }

  const TempDir temp_;
  const Tenured daemon_{TenuredSettings{.heartbeat_interval = "100ms"}};
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(4)}, 1);
  const Client client_ = daemon_.Connect();
};

// Field case 45.
TEST_F(NamespaceTest, TwoClientsThatAreBothProcessOneAreTwoAndDieOneByOne) {
  const auto first = Hold("first");
  const auto second = Hold("second");
  const auto sessions = client_.Sessions();
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  EXPECT_EQ(sessions->size(), 3u);
  EXPECT_EQ(Metrics().Value("tenure_leases"), 2u);
  // What they call themselves is a name, not who they are.
  EXPECT_EQ(sessions->at(1).instance, "1");
  EXPECT_EQ(sessions->at(2).instance, "1");

  kill(first->pid(), SIGKILL);
  first->Wait();
  EXPECT_TRUE(Eventually([&] { return Metrics().Value("tenure_leases") == 1; }));
  EXPECT_TRUE(Eventually([&] { return client_.Sessions()->size() == 2; }));
  EXPECT_EQ(Metrics().Memory("quarantined"), 0u);
  // The other one lives on: nothing of its is reaped for many times its time to live.
  const uint64_t beats = 10;
  for (uint64_t i = 0; i < beats; ++i) {
    const auto silent = [&] { return client_.Sessions()->at(1).silent_for; };
    EXPECT_TRUE(Eventually([&] { return silent() > std::chrono::milliseconds(50); }));
    EXPECT_TRUE(Eventually([&] { return silent() < std::chrono::milliseconds(50); }));
  }
  EXPECT_EQ(Metrics().Value("tenure_leases"), 1u);
  EXPECT_EQ(Metrics().Value("tenure_leases_expired_total"), 0u);
  EXPECT_EQ(Metrics().Value("tenure_clients_lost_total"), 1u);
}

}  // namespace
}  // namespace tenure
