// tenurectl in the hands of an operator: cordon, uncordon, drain, trim, reload.

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/program.h"
#include "tests/e2e/lease_holder.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr uint64_t kModelBytes = 8 << 20;

class OperateTest : public ::testing::Test {
 protected:
  struct Ran {
    int status;
    std::string out;
    std::string err;
    json Json() const { return json::parse(out.empty() ? err : out); }
  };

  // `wrapper`: a program that ends in executing tenurectl.
  Ran Tenurectl(std::vector<std::string> arguments, std::vector<std::string> wrapper = {}) const {
    std::vector<std::string> command = std::move(wrapper);
    command.insert(command.end(), {TENURECTL_PATH, "--directory", daemon_->directory()});
    command.insert(command.end(), arguments.begin(), arguments.end());
    Program program(std::move(command), temp_ / "tenurectl");
    const int status = program.Wait();
    return {status, program.Out(), program.Err()};
  }
  void Start(const TenuredSettings& settings = {.runtime = "16MiB"}) {
    daemon_ = std::make_unique<Tenured>(settings);
    client_.emplace(daemon_->Connect());
    device_ = client_->Status()->devices.front().name;
  }
  // A model in the root, and its path.
  std::string Write(const std::string& name, uint64_t seed = 1) const {
    return WriteModel(*daemon_, name, {.target = Bytes(kModelBytes)}, seed).path;
  }
  absl::Status Load(const std::string& name, const std::string& path) const {
    return client_->Load({.name = name, .path = path}).status();
  }
  client::ModelState StateOf(const std::string& name) const { return client_->Get(name)->state; }

  const TempDir temp_;
  std::unique_ptr<Tenured> daemon_;
  std::optional<Client> client_;
  std::string device_;
};

// Field case 55.
TEST_F(OperateTest, ACordonedDeviceRefusesNewModelsAndServesTheOldOnes) {
  Start();
  ASSERT_TRUE(Load("old", Write("old")).ok());
  EXPECT_EQ(Tenurectl({"cordon", device_}).out, device_ + " is now cordoned\n");
  EXPECT_EQ(Tenurectl({"cordon", device_}).out, device_ + " was already cordoned\n");
  EXPECT_THAT(Tenurectl({"arenas"}).out, HasSubstr("cordoned: takes no new models"));
  EXPECT_EQ(Scrape::Of(daemon_->metrics_address()).Value("tenure_device_cordoned"), 1u);

  const Ran refused = Tenurectl({"load", "new", Write("new", 2)});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("reason: CORDONED"));
  EXPECT_THAT(refused.err, HasSubstr("tenurectl uncordon " + device_));
  EXPECT_THAT(refused.err, HasSubstr("tenurectl explain"));
  EXPECT_TRUE(client_->Acquire({.name = "old"}).ok());

  const Ran uncordoned = Tenurectl({"--json", "uncordon", device_});
  EXPECT_EQ(uncordoned.Json(), json({{"device", device_}, {"cordoned", false}, {"changed", true}}));
  EXPECT_EQ(Tenurectl({"load", "new", "models/new.safetensors"}).status, 0);
  EXPECT_EQ(Tenurectl({"cordon", "gpu:9"}).status, 4);
  EXPECT_EQ(Tenurectl({"cordon"}).status, 2);
}

TEST_F(OperateTest, ADrainNamesTheHoldersAndEndsOnceTheyAreGone) {
  Start();
  ASSERT_TRUE(Load("idle", Write("idle", 2)).ok());
  LeaseHolder holder(*daemon_, "held", Write("held"));
  const Ran first = Tenurectl({"drain", device_, "--timeout", "100ms"});
  EXPECT_EQ(first.status, 1);
  EXPECT_THAT(first.out, HasSubstr(device_ + ": not drained; still held by"));
  EXPECT_THAT(first.out, HasSubstr("held@1"));
  EXPECT_THAT(first.out, HasSubstr("tenurectl uncordon"));
  EXPECT_EQ(StateOf("held"), client::ModelState::kDraining);
  EXPECT_EQ(StateOf("idle"), client::ModelState::kRetained);
  const json told = Tenurectl({"--json", "drain", "--all", "--timeout", "0"}).Json();
  EXPECT_EQ(told["drained"], false);
  EXPECT_EQ(told["devices"][0]["holders"][0]["model"], "held@1");
  EXPECT_EQ(told["devices"][0]["holders"][0]["lease_count"], 1);

  holder.Kill();
  const Ran second = Tenurectl({"drain", device_, "--timeout", "30s"});
  EXPECT_EQ(second.status, 0) << second.out << second.err;
  EXPECT_EQ(second.out, device_ + ": drained, nothing of it is leased, loading or mapped\n");
  EXPECT_EQ(Tenurectl({"drain"}).status, 2);
}

// A client that keeps models mapped for quick return lets go of them, and so does one with a pool.
TEST_F(OperateTest, ADrainEndsByItselfWhereClientsHoldNoLease) {
  Start();
  ASSERT_TRUE(Load("idle", Write("idle")).ok());
  {
    const auto lease = client_->Acquire({.name = "idle"});
    ASSERT_TRUE(lease.ok()) << lease.status();
  }
  EXPECT_EQ(client_->mapped_region_count(), 1u);
  auto pool = client_->OpenPool();
  ASSERT_TRUE(pool.ok()) << pool.status();
  { ASSERT_TRUE(pool->Acquire(1 << 20).ok()); }
  const Ran drained = Tenurectl({"drain", "--all", "--timeout", "30s"});
  EXPECT_EQ(drained.status, 0) << drained.out << drained.err;
  EXPECT_EQ(client_->mapped_region_count(), 0u);
}

TEST_F(OperateTest, TrimGivesMemoryBackToTheSystem) {
  Start();
  ASSERT_TRUE(Load("a", Write("a")).ok());
  ASSERT_TRUE(client_->Unload("a").ok());
  const auto reserved = [&] {
    return Scrape::Of(daemon_->metrics_address()).Value("tenure_arena_reserved_bytes", "weights");
  };
  EXPECT_GE(reserved(), kModelBytes);
  EXPECT_THAT(Tenurectl({"trim"}).out, HasSubstr(device_ + ": given back to the system 0 B"));
  const json told = Tenurectl({"--json", "trim", device_, "--retained"}).Json();
  EXPECT_GE(told["devices"][0]["weights_bytes"], kModelBytes);
  EXPECT_EQ(told["devices"][0]["runtime_bytes"], 0);
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(Scrape::Of(daemon_->metrics_address()).Imbalance(), "");
}

TEST_F(OperateTest, ReloadTellsWhatChangedOrWhyNothingDid) {
  Start();
  EXPECT_EQ(Tenurectl({"reload"}).out, "nothing changed\n");
  std::ofstream(daemon_->config(), std::ios::app) << "drain_timeout: 7s\n" << std::flush;
  EXPECT_EQ(Tenurectl({"reload"}).out, "drain_timeout: 30s -> 7s\n");
  std::ofstream(daemon_->config(), std::ios::app) << "driver_timeout: 7s\n" << std::flush;
  const Ran refused = Tenurectl({"reload"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("driver_timeout: cannot change from 1m to 7s"));
  EXPECT_THAT(refused.err, HasSubstr("RESTART_NEEDED"));
  EXPECT_EQ(Tenurectl({"--json", "reload"}).Json()["error"]["reason"], "RESTART_NEEDED");
}

TEST_F(OperateTest, HelpSaysWhatHappensAndWhoMay) {
  Start();
  for (const char* command : {"cordon", "uncordon", "drain", "trim", "reload"}) {
    const Ran help = Tenurectl({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("For root, the daemon's own user")) << command;
  }
}

class OtherUserTest : public OperateTest {
 protected:
  static constexpr char kUser[] = "4711";
  static constexpr char kGroup[] = "4712";

  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  }
  // Others may look into the test's directories; only the sockets keep them out.
  void StartOpen(const char* mask, std::vector<std::string> environment) {
    environment.push_back(std::string("TENURED_SOCKET_GROUP=") + kGroup);
    Start({.wrapper = {"/bin/sh", "-c", std::string("umask ") + mask + " && exec \"$@\"", "sh"},
           .environment = std::move(environment)});
    const std::string run = daemon_->config().substr(0, daemon_->config().rfind('/'));
    ASSERT_EQ(chmod(run.c_str(), 0755), 0);
    ASSERT_EQ(chmod((run + "/run").c_str(), 0755), 0);
  }
  // As a user who is in these groups.
  static std::vector<std::string> As(const std::string& groups) {
    return {"setpriv", "--reuid", kUser, "--regid", kUser, "--groups", groups, "--"};
  }
  std::string Mode(const std::string& socket) const {
    struct stat file {};
    EXPECT_EQ(
        stat((daemon_->config().substr(0, daemon_->config().rfind('/')) + "/run/" + socket).c_str(),
             &file),
        0);
    char text[32];
    snprintf(text, sizeof text, "%o:%u", file.st_mode & 07777, file.st_gid);
    return text;
  }
};

// Field case 40.
TEST_F(OtherUserTest, TheSocketsHaveTheirModeAndGroupWhateverTheUmask) {
  for (const char* mask : {"077", "022"}) {
    StartOpen(mask, {"TENURED_SOCKET_MODE=0620"});
    for (const char* socket : {"grpc.sock", "handle.sock"}) {
      EXPECT_EQ(Mode(socket), std::string("620:") + kGroup) << mask;
    }
  }
}

// Field case 40.
TEST_F(OtherUserTest, AMemberOfTheGroupConnectsAndOthersDoNotAndOperatingTakesASecondRight) {
  StartOpen("022", {});
  EXPECT_EQ(Tenurectl({"models"}, As(kUser)).status, 3);
  EXPECT_EQ(Tenurectl({"models"}, As(kGroup)).status, 0);
  ASSERT_TRUE(Load("a", Write("a")).ok());
  for (const std::vector<std::string>& command : {std::vector<std::string>{"cordon", device_},
                                                  {"uncordon", device_},
                                                  {"drain", "--all"},
                                                  {"trim"},
                                                  {"reload"}}) {
    const Ran refused = Tenurectl(command, As(kGroup));
    EXPECT_EQ(refused.status, 1) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("reason: PERMISSION_DENIED")) << command[0];
  }
  EXPECT_EQ(StateOf("a"), client::ModelState::kActive);

  // The right comes with a reload, and so does that it takes one to unload.
  std::ofstream(daemon_->config(), std::ios::app) << "admin: {gids: [4713], unload: true}\n"
                                                  << std::flush;
  ASSERT_EQ(Tenurectl({"reload"}).status, 0);
  EXPECT_EQ(Tenurectl({"unload", "a"}, As(kGroup)).status, 1);
  EXPECT_EQ(Tenurectl({"trim"}, As(std::string(kGroup) + ",4713")).status, 0);
  EXPECT_EQ(Tenurectl({"unload", "a"}, As(std::string(kGroup) + ",4713")).status, 0);
}

TEST(SocketGroupTest, AGroupThatIsNotThereKeepsTheDaemonFromStarting) {
  const TempDir temp;
  Program daemon({TENURED_PATH, "--directory", temp / "run", "--metrics-address", "", "--set",
                  "socket.group=nobody-has-this-group"},
                 temp / "tenured");
  EXPECT_EQ(daemon.Wait(), 1);
  EXPECT_THAT(daemon.Err(), HasSubstr("socket.group: there is no group nobody-has-this-group"));
}

}  // namespace
}  // namespace tenure
