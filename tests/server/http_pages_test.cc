#include "server/http_pages.h"

#include <atomic>
#include <future>
#include <gmock/gmock.h>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/base/mutex.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// A clock that keeps who asks it waiting until it is let go.
class HeldClock final : public Clock {
 public:
  Instant Now() const override {
    ++asked_;
    const MutexLock lock(mutex_);
    while (held_) released_.Wait(mutex_);
    return Instant();
  }
  void Hold() {
    const MutexLock lock(mutex_);
    held_ = true;
    asked_ = 0;
  }
  void Release() {
    const MutexLock lock(mutex_);
    held_ = false;
    released_.NotifyAll();
  }
  int asked() const { return asked_; }

 private:
  mutable std::atomic<int> asked_ = 0;
  mutable Mutex mutex_;
  mutable CondVar released_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
};

class HttpPagesTest : public ServiceTest {
 protected:
  HttpPages Pages(const WantedModels& wanted) const {
    return MakeHttpPages({.store = *store_,
                          .wanted = wanted,
                          .metrics = metrics_,
                          .maps = *maps_,
                          .boot_id = kBootId,
                          .serving = [this] { return serving_; }});
  }
  HttpReply Ask(const std::string& path) const { return Pages(*wanted_).at(path)(); }

  ReloadLog reloads_;
  const Metrics metrics_{*store_, sessions_, rpcs_, reloads_, planner_, MetricsOptions{}};
  bool serving_ = true;
};

TEST_F(HttpPagesTest, ThereIsOneForEachNeed) {
  EXPECT_EQ(Ask("/healthz").body, "ok\n");
  EXPECT_THAT(Ask("/metrics").type, StartsWith("text/plain; version=0.0.4"));
  EXPECT_THAT(Ask("/metrics").body, HasSubstr("\ntenure_memory_bytes{device=\"host:0\",arena=\""));
  const json version = json::parse(Ask("/version").body);
  EXPECT_EQ(version["version"], TENURE_VERSION);
  EXPECT_EQ(version["boot_id"], kBootId);
  EXPECT_EQ(Pages(*wanted_).size(), 6u);
}

TEST_F(HttpPagesTest, ThePageMayRunItsOwnScriptAndAskItsOwnServerOnly) {
  const HttpReply page = Ask("/");
  EXPECT_THAT(page.type, StartsWith("text/html"));
  EXPECT_THAT(page.policy, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page.policy, HasSubstr("script-src 'sha256-"));
  EXPECT_THAT(page.policy, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(page.policy, Not(HasSubstr("unsafe")));
  EXPECT_THAT(page.body, Not(HasSubstr("http://")));
  EXPECT_THAT(page.body, Not(HasSubstr("https://")));
}

TEST_F(HttpPagesTest, NoMoreMapsAreTakenAtATimeThanAFew) {
  HeldClock clock;
  const MapMaker maps(*store_, clock, kBootId);
  const HttpPages pages = MakeHttpPages({.store = *store_,
                                         .wanted = *wanted_,
                                         .metrics = metrics_,
                                         .maps = maps,
                                         .boot_id = kBootId,
                                         .serving = [] { return true; }});
  const HttpPage& page = pages.at("/map.json");
  clock.Hold();
  std::vector<std::future<HttpReply>> replies;
  for (int i = 0; i < 4; ++i) replies.push_back(std::async(std::launch::async, page));
  ASSERT_TRUE(Comes([&] { return clock.asked() == 4; }));
  EXPECT_EQ(page().status, 503);
  clock.Release();
  for (auto& reply : replies) EXPECT_EQ(reply.get().status, 200);
  EXPECT_EQ(page().status, 200);
}

TEST_F(HttpPagesTest, IsReadyWithDetailForEveryDeviceAndArena) {
  // Nothing is wanted, which is known once that was looked at.
  wanted_->Start([](bool) {});
  ASSERT_TRUE(Comes([&] { return wanted_->GetProgress().ready; }));
  const HttpReply reply = Ask("/readyz");
  EXPECT_EQ(reply.status, 200);
  const json ready = json::parse(reply.body);
  EXPECT_EQ(ready["ready"], true);
  ASSERT_EQ(ready["devices"].size(), 1u);
  EXPECT_EQ(ready["devices"][0]["name"], "host:0");
  EXPECT_EQ(ready["devices"][0]["serving"], true);
  ASSERT_EQ(ready["devices"][0]["arenas"].size(), 2u);
  EXPECT_EQ(ready["devices"][0]["arenas"][0]["capacity_bytes"], KiB(512).count());
  EXPECT_EQ(ready["devices"][0]["arenas"][1]["free_bytes"], KiB(256).count());

  serving_ = false;
  EXPECT_EQ(Ask("/readyz").status, 503);
  EXPECT_EQ(json::parse(Ask("/readyz").body)["serving"], false);
  EXPECT_EQ(Ask("/healthz").status, 200);
}

TEST_F(HttpPagesTest, IsNotReadyAsLongAsAModelIsPendingAndSaysWhich) {
  WantedModels wanted(*store_, directory_ / "other.yaml",
                      {{.name = "late", .path = "models/late.safetensors"}});
  wanted.Start([](bool) {});
  const auto pending = [&] { return json::parse(Pages(wanted).at("/readyz")().body)["models"]; };
  ASSERT_TRUE(Comes([&] { return pending()["pending"][0]["reason"] == "FILE_NOT_FOUND"; }));
  EXPECT_EQ(pending()["wanted"], 1);
  EXPECT_EQ(pending()["pending"][0]["name"], "late");
}

TEST_F(HttpPagesTest, ACordonedDeviceIsNamedAndTheDaemonIsReadyAllTheSame) {
  wanted_->Start([](bool) {});
  EXPECT_EQ(json::parse(Ask("/readyz").body)["devices"][0]["cordoned"], false);
  ASSERT_TRUE(control_->SetCordoned("host:0", true).ok());
  EXPECT_EQ(Ask("/readyz").status, 200);
  EXPECT_EQ(json::parse(Ask("/readyz").body)["devices"][0]["cordoned"], true);
}

TEST_F(HttpPagesTest, IsNotReadyOnceTheOnlyDeviceIsLost) {
  wanted_->Start([](bool) {});
  ASSERT_TRUE(Comes([&] { return Ask("/readyz").status == 200; }));
  device_->Lose();
  store_->Tick();
  const HttpReply reply = Ask("/readyz");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(json::parse(reply.body)["devices"][0]["lost"].get<std::string>(),
              HasSubstr("told to be lost"));
}

}  // namespace
}  // namespace tenure
