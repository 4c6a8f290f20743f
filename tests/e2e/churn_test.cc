// Models that come and go for long leave nothing behind in the daemon.

#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenure/client.h"
#include "tests/e2e/models.h"
#include "tests/e2e/tenured.h"
#include "tests/e2e/traces.h"

namespace tenure {
namespace {

constexpr int kWarmUp = 20;
// Each thread of the HTTP server keeps some memory from its first request on.
constexpr int kWarmUpScrapes = 200;
constexpr int kCycles = 300;
// What a cycle may add, in fds, threads and maps, and in the daemon's own memory: far less than one
// that is left behind each time.
constexpr double kSlope = 0.03;
[[maybe_unused]] constexpr double kSlopeKiB = 4;

class ChurnTest : public ::testing::Test {
 protected:
  void Load(const ModelFile& file, client::Retention retention = {}) const {
    const auto loaded =
        client_.Load({.name = "m", .path = file.path, .retention = retention, .acquire = true});
    if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
  }
  void Unload() const {
    const auto unloaded = client_.Unload("m");
    if (!unloaded.ok()) throw std::runtime_error(unloaded.status().ToString());
  }

  // Runs the cycle again and again, and expects what the daemon holds to be the same after each.
  void ExpectNothingLeftBehind(const std::function<void()>& cycle) const {
    for (int i = 0; i < kWarmUpScrapes; ++i) Traces::Of(daemon_);
    std::vector<Traces> after;
    for (int i = 0; i < kWarmUp + kCycles; ++i) {
      cycle();
      if (i >= kWarmUp) after.push_back(Traces::Of(daemon_));
    }
    for (const Traces& each : after) {
      EXPECT_EQ(each.reserved, after.front().reserved);
      EXPECT_EQ(each.allocated, after.front().allocated);
      EXPECT_EQ(each.series, after.front().series);
    }
    // Threads of the RPC and HTTP servers come and go: what counts is that they do not add up.
    EXPECT_LE(Slope(after, &Traces::fds), kSlope);
    EXPECT_LE(Slope(after, &Traces::threads), kSlope);
#ifndef TENURE_SANITIZED  // a sanitizer keeps what is freed; its leak check stands in
    EXPECT_LE(Slope(after, &Traces::maps), kSlope);
    EXPECT_LE(Slope(after, &Traces::private_kib), kSlopeKiB);
#endif
  }

  const Tenured daemon_{TenuredSettings{.capacity = "32MiB", .segment_size = "4MiB"}};
  const Client client_ = daemon_.Connect();
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(8)}, 1);
  const ModelFile b_ = WriteModel(daemon_, "b", {.target = MiB(8)}, 2);
  const ModelFile c_ =
      WriteModel(daemon_, "c", {.architecture = Architecture::kMoe, .target = MiB(8)}, 3);
};

// Field case 4.
TEST_F(ChurnTest, LoadingUnloadingAndReclaimingLeavesNothingBehind) {
  ExpectNothingLeftBehind([this] {
    Load(a_, std::chrono::nanoseconds(0));
    Unload();
  });
}

// Field case 4.
TEST_F(ChurnTest, ReplacingAModelInPlaceLeavesNothingBehind) {
  ExpectNothingLeftBehind([this] {
    Load(a_);
    Unload();
    Load(b_);
    Unload();
  });
}

// Field case 4.
TEST_F(ChurnTest, ReloadingANameWithOtherBytesLeavesNothingBehind) {
  ExpectNothingLeftBehind([this] {
    Load(a_);
    Load(b_);
  });
}

// Field case 4.
TEST_F(ChurnTest, GoingToAnotherArchitectureAndBackLeavesNothingBehind) {
  ExpectNothingLeftBehind([this] {
    Load(a_);
    Unload();
    Load(c_);
    Unload();
    Load(a_);
    Unload();
  });
}

}  // namespace
}  // namespace tenure
