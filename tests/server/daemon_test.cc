#include "server/daemon.h"

#include <chrono>
#include <filesystem>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <memory>
#include <spdlog/spdlog.h>
#include <string>
#include <sys/stat.h>
#include <tenure/v1/admin.grpc.pb.h>
#include <unistd.h>

#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::HasSubstr;

class DaemonTest : public ::testing::Test {
 protected:
  DaemonTest() {
    spdlog::set_level(spdlog::level::off);
    config_.directory = directory_ / "run";
    config_.metrics_address = "127.0.0.1:0";
    config_.model_roots = {{"models", directory_.MakeDir("models")}};
    config_.devices.resize(1);
    config_.devices[0].total = MiB(64);
    config_.devices[0].weights = MiB(32);
  }

  v1::GetStatusResponse StatusNow() const {
    const auto admin = v1::AdminService::NewStub(grpc::CreateChannel(
        "unix:" + config_.directory + "/grpc.sock", grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    v1::GetStatusResponse status;
    EXPECT_TRUE(admin->GetStatus(&context, {}, &status).ok());
    return status;
  }

  TempDir directory_;
  Config config_;
};

TEST_F(DaemonTest, ServesStopsAndServesAgain) {
  std::string last_boot;
  for (int boot = 0; boot < 2; ++boot) {
    const StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(config_);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    const v1::GetStatusResponse status = StatusNow();
    EXPECT_EQ(status.boot_id(), (*daemon)->boot_id());
    EXPECT_EQ(status.boot_id().size(), 32u);
    EXPECT_NE(status.boot_id(), last_boot);
    last_boot = status.boot_id();
    EXPECT_EQ(status.metrics_address(), (*daemon)->metrics_address());
    EXPECT_NE(status.metrics_address(), "127.0.0.1:0");
    EXPECT_EQ(status.devices(0).arenas(0).capacity(), MiB(32).count());
    for (const char* name : {"/grpc.sock", "/handle.sock"}) {
      struct stat st {};
      ASSERT_EQ(stat((config_.directory + name).c_str(), &st), 0) << name;
      EXPECT_EQ(st.st_mode & 0777, 0660u) << name;
    }
    (*daemon)->Stop(std::chrono::seconds(5));
    EXPECT_FALSE(std::filesystem::exists(config_.directory + "/grpc.sock"));
    EXPECT_FALSE(std::filesystem::exists(config_.directory + "/handle.sock"));
  }
}

TEST_F(DaemonTest, ASecondOneIsRefusedAndTheFirstGoesOn) {
  const StatusOr<std::unique_ptr<Daemon>> first = Daemon::Start(config_);
  ASSERT_TRUE(first.ok()) << first.status();
  const Status second = Daemon::Start(config_).status();
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("already running (pid " + std::to_string(getpid()) + ", boot id " +
                        (*first)->boot_id() + ")"));
  EXPECT_EQ(StatusNow().boot_id(), (*first)->boot_id());
}

TEST_F(DaemonTest, AFileInPlaceOfASocketIsRefusedAndStays) {
  const std::string path = directory_.WriteFile("run/grpc.sock", "precious");
  EXPECT_THAT(std::string(Daemon::Start(config_).status().message()), HasSubstr(path));
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
}

TEST_F(DaemonTest, AModelRootThatIsMissingIsRefused) {
  config_.model_roots[0].path = directory_ / "none";
  EXPECT_THAT(std::string(Daemon::Start(config_).status().message()), HasSubstr("models"));
}

TEST_F(DaemonTest, AMetricsAddressThatIsTakenIsRefused) {
  const StatusOr<std::unique_ptr<Daemon>> first = Daemon::Start(config_);
  ASSERT_TRUE(first.ok()) << first.status();
  config_.directory = directory_ / "other";
  config_.metrics_address = (*first)->metrics_address();
  EXPECT_THAT(std::string(Daemon::Start(config_).status().message()), HasSubstr("metrics"));
}

}  // namespace
}  // namespace tenure
