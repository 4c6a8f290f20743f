// tenure-verify, and through it a client process that can be stopped.

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string>
#include <thread>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/client/program.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() : file_(WriteModel(daemon_, "a", 8)) {
    EXPECT_TRUE(client_.Load({.name = "a", .path = file_.path}).ok());
  }

  DaemonProcess daemon_{DaemonSettings{.lease_ttl = "1s", .heartbeat_interval = "200ms"}};
  const TempDir temp_;
  const ModelFile file_;
  const Client client_ = *Client::Connect({.directory = daemon_.directory(), .program = "test"});
};

TEST_F(VerifyTest, AgreesWithTheFileThatWasLoaded) {
  Program verify({TENURE_VERIFY_PATH, "--directory", daemon_.directory(), "a", file_.path},
                 temp_ / "v");
  EXPECT_EQ(verify.Wait(), 0) << verify.Out() << verify.Err();
  EXPECT_THAT(verify.Out(),
              HasSubstr("verified " + std::to_string(file_.specs.size()) + " tensors, "));
}

TEST_F(VerifyTest, NamesTheFirstDifferenceWithAnotherFile) {
  const ModelFile other = WriteModel(daemon_, "other", 8, 2);
  Program verify({TENURE_VERIFY_PATH, "--directory", daemon_.directory(), "a", other.path},
                 temp_ / "v");
  EXPECT_EQ(verify.Wait(), 1);
  EXPECT_THAT(verify.Out(), HasSubstr("differs at byte "));
}

TEST_F(VerifyTest, FailsWithoutAModel) {
  Program verify({TENURE_VERIFY_PATH, "--directory", daemon_.directory(), "b", file_.path},
                 temp_ / "v");
  EXPECT_EQ(verify.Wait(), 1);
  EXPECT_THAT(verify.Err(), HasSubstr("MODEL_NOT_FOUND"));
}

// Field case 49, for weights.
TEST_F(VerifyTest, AClientThatWasStoppedLearnsThatItsLeaseIsLost) {
  Program verify(
      {TENURE_VERIFY_PATH, "--directory", daemon_.directory(), "--hold", "1.5", "a", file_.path},
      temp_ / "v");
  ASSERT_TRUE(Eventually([&] { return verify.Out().starts_with("verified"); }));
  kill(verify.pid(), SIGSTOP);
  const auto quarantined = [&] {
    const auto holders = client_.Get("a")->holders;
    return holders.size() == 1 && holders[0].quarantined;
  };
  EXPECT_TRUE(Eventually(quarantined));
  kill(verify.pid(), SIGCONT);
  EXPECT_EQ(verify.Wait(), 1);
  // By the daemon's word or by its own clock, whichever it sees first.
  EXPECT_THAT(verify.Out(), AnyOf(HasSubstr("the lease was lost: LEASE_EXPIRED"),
                                  HasSubstr("the lease was lost: HEARTBEAT_MISSED")));
  EXPECT_TRUE(Eventually([&] { return client_.Get("a")->holders.empty(); }));
}

// Field case 16.
TEST_F(VerifyTest, AKilledClientLeavesNothingBehind) {
  Program verify(
      {TENURE_VERIFY_PATH, "--directory", daemon_.directory(), "--hold", "60", "a", file_.path},
      temp_ / "v");
  ASSERT_TRUE(Eventually([&] { return verify.Out().starts_with("verified"); }));
  EXPECT_EQ(client_.Get("a")->holders.size(), 1u);
  kill(verify.pid(), SIGKILL);
  EXPECT_TRUE(Eventually([&] { return client_.Get("a")->holders.empty(); }));
  EXPECT_EQ(client_.Status()->devices.at(0).arenas.at(0).quarantined, 0u);
}

}  // namespace
}  // namespace tenure
