// A daemon that is told to stop while clients load and lease.

#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <signal.h>
#include <string>
#include <thread>
#include <vector>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/tenured.h"

namespace tenure {
namespace {

using testing::HasSubstr;
using testing::IsSubsetOf;

constexpr int kClients = 4;
constexpr int kModels = 6;

class StopUnderLoadTest : public ::testing::Test {
 protected:
  StopUnderLoadTest() {
    for (int i = 0; i < kModels; ++i) {
      files_.push_back(WriteModel(daemon_, Name(i), {.target = MiB(4)}, static_cast<uint64_t>(i)));
    }
  }
  static std::string Name(int model) { return "m" + std::to_string(model); }

  void Note(const absl::Status& status) {
    const std::lock_guard lock(mutex_);
    reasons_.insert(ErrorReason(status));
  }

  // Loads, leases and reads until the daemon refuses.
  void Work(int index) {
    const Client client = daemon_.Connect("worker");
    for (int round = 0; !stopped_; ++round) {
      const int model = (index + round) % kModels;
      // What is pinned stays wanted, by whichever daemon is there.
      const auto loaded = client.Load({.name = Name(model),
                                       .path = files_[static_cast<size_t>(model)].path,
                                       .pin = model == 0});
      if (loaded.ok() && model == 0) pinned_ = true;
      if (!loaded.ok()) Note(loaded.status());
      const auto lease = client.Acquire({.name = Name(model)});
      if (!lease.ok()) {
        Note(lease.status());
        if (ErrorReason(lease.status()) != "MODEL_NOT_FOUND") return;
        continue;
      }
      if (!Difference(*lease, files_[static_cast<size_t>(model)]).empty()) ++wrong_;
      ++reads_;
      if (model % 2 == 1) client.Unload(Name(model)).status().IgnoreError();
    }
  }

  Tenured daemon_{TenuredSettings{.capacity = "64MiB"}};
  std::vector<ModelFile> files_;
  std::mutex mutex_;
  std::set<std::string> reasons_;
  std::atomic<bool> stopped_ = false;
  std::atomic<bool> pinned_ = false;
  std::atomic<int> reads_ = 0;
  std::atomic<int> wrong_ = 0;
};

// Field case 55.
TEST_F(StopUnderLoadTest, ItEndsWithZeroAndNothingIsLost) {
  std::vector<std::thread> workers;
  for (int i = 0; i < kClients; ++i) workers.emplace_back([this, i] { Work(i); });
  ASSERT_TRUE(Eventually([this] { return pinned_ && reads_ > 20 * kClients; }));
  kill(daemon_.pid(), SIGTERM);
  EXPECT_EQ(daemon_.Wait(), 0) << daemon_.Log();
  stopped_ = true;
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong_, 0);
  // Whoever was turned away knows why.
  EXPECT_THAT(reasons_, IsSubsetOf({"SHUTTING_DOWN", "DAEMON_GONE", "DAEMON_UNREACHABLE",
                                    "MODEL_NOT_FOUND", "MODEL_UNAVAILABLE", "MODEL_DRAINING"}));
  EXPECT_THAT(daemon_.Log(), HasSubstr("stopped quiet=true"));

  daemon_.Start();
  const Client client = daemon_.Connect();
  EXPECT_TRUE(Eventually([&] {
    const auto model = client.Get(Name(0));
    return model.ok() && model->state == client::ModelState::kActive;
  }));
  EXPECT_EQ(Difference(*client.Acquire({.name = Name(0)}), files_[0]), "");
}

// Field case 55.
TEST_F(StopUnderLoadTest, LiveLeasesAreWaitedForAndNewOnesRefused) {
  const Client client = daemon_.Connect();
  ASSERT_TRUE(client.Load({.name = Name(1), .path = files_[1].path}).ok());
  std::optional<WeightLease> lease = *client.Acquire({.name = Name(1)});
  kill(daemon_.pid(), SIGTERM);
  EXPECT_TRUE(Eventually(
      [&] { return ErrorReason(client.Acquire({.name = Name(1)}).status()) == "SHUTTING_DOWN"; }));
  EXPECT_EQ(client::CheckHealth(daemon_.directory(), std::chrono::seconds(5)).value_or(true),
            false);
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(Difference(*lease, files_[1]), "");
  lease.reset();
  EXPECT_EQ(daemon_.Wait(), 0);
  EXPECT_THAT(daemon_.Log(), HasSubstr("stopped quiet=true"));
}

// Field case 55.
TEST_F(StopUnderLoadTest, ASecondSignalEndsItNow) {
  const Client client = daemon_.Connect();
  ASSERT_TRUE(client.Load({.name = Name(1), .path = files_[1].path}).ok());
  const auto lease = client.Acquire({.name = Name(1)});
  ASSERT_TRUE(lease.ok());
  kill(daemon_.pid(), SIGTERM);
  EXPECT_TRUE(Eventually(
      [this] { return daemon_.Log().find("stopping drain_timeout") != std::string::npos; }));
  kill(daemon_.pid(), SIGTERM);
  EXPECT_EQ(daemon_.Wait(), -1);
  EXPECT_EQ(Difference(*lease, files_[1]), "");
}

}  // namespace
}  // namespace tenure
