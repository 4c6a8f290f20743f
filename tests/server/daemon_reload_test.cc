#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>

#include "server/daemon.h"
#include "tests/server/daemon_calls.h"
#include "tests/support/safetensors_writer.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::HasSubstr;

// A daemon whose configuration file changes while it runs.
class DaemonReloadTest : public ::testing::Test {
 protected:
  DaemonReloadTest() {
    spdlog::set_level(spdlog::level::off);
    for (const char* name : {"a", "b"}) {
      WriteSafetensors(temp_.MakeDir("models") + "/" + name,
                       {TensorSpec{.name = "t", .dtype = DType::kU8, .shape = {4096}}}, 1);
    }
    Write("");
    const StatusOr<LoadedConfig> loaded = Gather(sources_);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(loaded->config, sources_);
    EXPECT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    calls_.emplace(temp_ / "run");
  }

  // What the file says beside what never changes.
  void Write(const std::string& more) {
    temp_.WriteFile("tenured.yaml", "directory: " + temp_ / "run" +
                                        "\nmetrics: {address: \"\"}\nlog: {level: error}\n"
                                        "model_roots: [{name: models, path: " +
                                        temp_ / "models" +
                                        "}]\ndevices: [{total: 64MiB, weights: 32MiB}]\n" + more);
  }
  std::string Refusal() {
    const Status refused = daemon_->Reload().status();
    EXPECT_FALSE(refused.ok());
    return std::string(refused.message());
  }

  const TempDir temp_;
  const ConfigSources sources_{.file = temp_ / "tenured.yaml"};
  std::unique_ptr<Daemon> daemon_;
  std::optional<DaemonCalls> calls_;
};

TEST_F(DaemonReloadTest, WhatCanChangeChangesAndIsTold) {
  Write("drain_timeout: 7s\nweights: {retain_ttl: 5m}\nmodels: [{name: a, path: models/a}]\n");
  const StatusOr<std::vector<ConfigChange>> changes = daemon_->Reload();
  ASSERT_TRUE(changes.ok()) << changes.status();
  ASSERT_EQ(changes->size(), 3u);
  EXPECT_EQ((*changes)[0].key, "weights.retain_ttl");
  EXPECT_EQ((*changes)[1].key, "drain_timeout");
  EXPECT_EQ((*changes)[2].key, "models.a");
  EXPECT_EQ(daemon_->drain_timeout(), std::chrono::seconds(7));
  EXPECT_TRUE(calls_->BecomesOnline("a"));
  ASSERT_TRUE(calls_->Unload("a"));
  EXPECT_GT(calls_->RetainedFor("a"), std::chrono::minutes(4));
  EXPECT_LE(calls_->RetainedFor("a"), std::chrono::minutes(5));

  Write("");
  EXPECT_TRUE(daemon_->Reload().ok());
  EXPECT_EQ(daemon_->drain_timeout(), std::chrono::seconds(30));
  EXPECT_EQ(daemon_->Reload()->size(), 0u);
}

TEST_F(DaemonReloadTest, OneChangeThatNeedsARestartKeepsAllOthersFromTakingEffect) {
  Write("drain_timeout: 7s\ncopy_threads: 3\nmodels: [{name: a, path: models/a}]\n");
  const std::string refusal = Refusal();
  EXPECT_THAT(refusal, HasSubstr("tenured.yaml:7: copy_threads: cannot change from 2 to 3"));
  EXPECT_EQ(refusal.find('\n'), std::string::npos);
  EXPECT_EQ(daemon_->drain_timeout(), std::chrono::seconds(30));
  EXPECT_EQ(calls_->Status().readiness().wanted(), 0u);
}

TEST_F(DaemonReloadTest, ABrokenFileChangesNothing) {
  Write("drain_timeout: soon\nwieghts: {}\n");
  const std::string refusal = Refusal();
  EXPECT_THAT(refusal, HasSubstr("tenured.yaml:6: drain_timeout: expected a duration"));
  EXPECT_THAT(refusal, HasSubstr("tenured.yaml:7: wieghts: is no key"));
  Write("models: [{name: a, path: models/a, device: gpu:5}]\n");
  EXPECT_THAT(Refusal(), HasSubstr("there is no device gpu:5"));
  EXPECT_EQ(daemon_->drain_timeout(), std::chrono::seconds(30));
}

TEST_F(DaemonReloadTest, NewSessionsAreToldTheNewHeartbeatAndOldOnesKeepTheirLeases) {
  EXPECT_EQ(calls_->HeartbeatIntervalOfANewSession(), std::chrono::seconds(5));
  Write("leases: {ttl: 60s, heartbeat_interval: 20s}\n");
  ASSERT_TRUE(daemon_->Reload().ok());
  EXPECT_EQ(calls_->HeartbeatIntervalOfANewSession(), std::chrono::seconds(20));
  // Those that were told 20s would lose theirs.
  Write("leases: {ttl: 10s, heartbeat_interval: 2s}\n");
  EXPECT_THAT(Refusal(), HasSubstr("tenured.yaml:6: leases.ttl: 10s is too short for clients that "
                                   "were told to send a heartbeat every 20s"));
}

// Field case 55.
TEST_F(DaemonReloadTest, ACordonSurvivesAReload) {
  ASSERT_TRUE(calls_->Cordon("host:0"));
  Write("drain_timeout: 7s\n");
  ASSERT_TRUE(daemon_->Reload().ok());
  EXPECT_TRUE(calls_->Status().devices(0).cordoned());
}

TEST_F(DaemonReloadTest, ADaemonThatStopsReloadsNothing) {
  daemon_->Stop(std::chrono::seconds(1));
  EXPECT_TRUE(HasReason(daemon_->Reload().status(), Reason::kShuttingDown));
}

}  // namespace
}  // namespace tenure
