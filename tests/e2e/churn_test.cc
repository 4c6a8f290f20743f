// Models that come and go for long leave nothing behind in the daemon.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <stdexcept>
#include <string>
#include <vector>

#include "tenure/client.h"
#include "tests/e2e/models.h"
#include "tests/e2e/scrape.h"
#include "tests/e2e/tenured.h"

namespace tenure {
namespace {

constexpr int kWarmUp = 20;
constexpr int kCycles = 300;
// What a cycle may add, in fds, threads and maps, and in the daemon's own memory: far less than one
// that is left behind each time.
constexpr double kSlope = 0.03;
[[maybe_unused]] constexpr double kSlopeKiB = 4;

// A daemon after a cycle.
struct Traces {
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  size_t series = 0;
  size_t fds = 0;
  size_t threads = 0;
  size_t maps = 0;
  size_t private_kib = 0;
};

// The number behind `key` in the process's status file.
size_t StatusOf(const std::string& proc, const std::string& key) {
  std::ifstream file(proc + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoul(line.substr(key.size() + 1));
  }
  throw std::runtime_error("no " + key + " in " + proc);
}

size_t LinesOf(const std::string& path) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

class ChurnTest : public ::testing::Test {
 protected:
  Traces Look() const {
    const std::string proc = "/proc/" + std::to_string(daemon_.pid());
    const Scrape scrape = Scrape::Of(daemon_.metrics_address());
    Traces traces;
    traces.reserved = scrape.Value("tenure_arena_reserved_bytes");
    traces.allocated = scrape.Value("tenure_arena_allocated_bytes");
    traces.series = scrape.series_count();
    const std::filesystem::directory_iterator fds(proc + "/fd");
    traces.fds = static_cast<size_t>(std::distance(begin(fds), end(fds)));
    traces.threads = StatusOf(proc, "Threads");
    traces.maps = LinesOf(proc + "/maps");
    traces.private_kib = StatusOf(proc, "RssAnon");
    return traces;
  }

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
    std::vector<Traces> after;
    for (int i = 0; i < kWarmUp + kCycles; ++i) {
      cycle();
      if (i >= kWarmUp) after.push_back(Look());
    }
    for (const Traces& each : after) {
      EXPECT_EQ(each.reserved, after.front().reserved);
      EXPECT_EQ(each.allocated, after.front().allocated);
      EXPECT_EQ(each.series, after.front().series);
    }
    // Threads of the RPC and HTTP servers come and go: what counts is that they do not add up.
    EXPECT_LE(Slope(after, &Traces::fds), kSlope);
    EXPECT_LE(Slope(after, &Traces::threads), kSlope);
    EXPECT_LE(Slope(after, &Traces::maps), kSlope);
#ifndef TENURE_SANITIZED  // a sanitizer keeps what is freed; its leak check stands in
    EXPECT_LE(Slope(after, &Traces::private_kib), kSlopeKiB);
#endif
  }

  // What a cycle adds, by the medians of the first and the last third.
  static double Slope(const std::vector<Traces>& all, size_t Traces::*member) {
    const size_t third = all.size() / 3;
    const auto median = [&](size_t begin) {
      std::vector<size_t> values;
      for (size_t i = begin; i < begin + third; ++i) values.push_back(all[i].*member);
      std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(third / 2));
      return static_cast<double>(values[third / 2]);
    };
    return (median(all.size() - third) - median(0)) / static_cast<double>(all.size() - third);
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
