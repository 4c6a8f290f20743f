// What SIGHUP and a service manager see of a daemon.

#include <chrono>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <signal.h>
#include <string>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/e2e/models.h"
#include "tests/e2e/notify_socket.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::HasSubstr;

class ReloadTest : public ::testing::Test {
 protected:
  ReloadTest()
      : daemon_({.environment = {"NOTIFY_SOCKET=" + temp_ / "notify", "WATCHDOG_USEC=200000"}}) {}

  void Append(const std::string& yaml) const {
    std::ofstream(daemon_.config(), std::ios::app) << yaml << std::flush;
  }
  void Hangup() const { kill(daemon_.pid(), SIGHUP); }
  bool Reloads(const char* result, uint64_t count) const {
    return Eventually([&] {
      return Scrape::Of(daemon_.metrics_address())
                 .Value("tenure_config_reloads_total", std::string("result=\"") + result + "\"") ==
             count;
    });
  }

  const TempDir temp_;
  NotifySocket manager_{temp_ / "notify"};
  Tenured daemon_;
};

TEST_F(ReloadTest, SighupTakesOverWhatCanChangeAndTellsTheManager) {
  EXPECT_TRUE(manager_.Hears("READY=1"));
  EXPECT_THAT(manager_.last(), HasSubstr("STATUS=serving in " + daemon_.directory()));
  EXPECT_TRUE(manager_.Hears("WATCHDOG=1"));
  EXPECT_TRUE(Reloads("ok", 0));

  const ModelFile model = WriteModel(daemon_, "wanted", {.target = MiB(8)}, 1);
  Append("models: [{name: wanted, path: models/wanted.safetensors}]\n");
  Hangup();
  EXPECT_TRUE(manager_.Hears("RELOADING=1"));
  EXPECT_THAT(manager_.last(), HasSubstr("\nMONOTONIC_USEC="));
  EXPECT_TRUE(manager_.Hears("READY=1"));
  EXPECT_TRUE(Reloads("ok", 1));
  const Client client = daemon_.Connect();
  EXPECT_TRUE(Eventually([&] {
    const auto model = client.Get("wanted");
    return model.ok() && model->state == client::ModelState::kActive;
  }));

  Append("copy_threads: 7\n");  // comes twice
  Hangup();
  EXPECT_TRUE(manager_.Hears("READY=1"));
  EXPECT_THAT(manager_.last(), HasSubstr("copy_threads: comes twice"));
  EXPECT_TRUE(Reloads("failed", 1));
  const Scrape scrape = Scrape::Of(daemon_.metrics_address());
  EXPECT_EQ(scrape.Value("tenure_config_last_reload_successful"), 0u);
  EXPECT_GT(scrape.Value("tenure_config_last_reload_timestamp_seconds"),
            scrape.Value("tenure_process_start_time_seconds") - 1);
  EXPECT_THAT(daemon_.Log(), HasSubstr("the old one stays"));
  EXPECT_TRUE(client.Acquire({.name = "wanted"}).ok());

  kill(daemon_.pid(), SIGTERM);
  EXPECT_TRUE(manager_.Hears("STOPPING=1"));
  EXPECT_EQ(daemon_.Wait(), 0);
}

}  // namespace
}  // namespace tenure
