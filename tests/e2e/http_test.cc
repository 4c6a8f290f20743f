// What the daemon serves over HTTP, while others work and while it ends.

#include <atomic>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <thread>

#include <nlohmann/json.hpp>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"
#include "tests/e2e/tenured.h"
#include "tests/server/http_exchange.h"

namespace tenure {
namespace {

using nlohmann::json;

class HttpTest : public ::testing::Test {
 protected:
  std::string Ask(const std::string& path) const { return Get(daemon_.metrics_address(), path); }
  // "200"
  std::string StatusOf(const std::string& path) const { return Ask(path).substr(9, 3); }

  const Tenured daemon_;
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(16)}, 1);
};

uint64_t Number(const json& object, const char* name) {
  return std::stoull(object.at(name).get<std::string>());
}

// What does not add up in an arena of a map; empty if all does.
std::string Imbalance(const json& arena) {
  const json& ledger = arena.at("ledger");
  uint64_t bytes =
      Number(ledger, "cached") + Number(ledger, "unbacked") + Number(ledger, "stranded");
  for (const json& region : arena.at("regions")) bytes += Number(region, "bytes");
  for (const json& pool : arena.at("pools")) {
    bytes += Number(pool, "segment_bytes") * pool.at("segments").size();
  }
  return bytes == Number(ledger, "capacity") ? "" : arena.dump();
}

TEST_F(HttpTest, TheMapAddsUpWhileModelsComeAndGo) {
  std::atomic<bool> stop = false;
  std::atomic<int> rounds = 0;
  std::thread work([&] {
    const Client client = daemon_.Connect();
    while (!stop) {
      ASSERT_TRUE(client.Load({.name = "a", .path = a_.path}).ok());
      ASSERT_TRUE(client.Acquire({.name = "a"}).ok());
      ASSERT_TRUE(client.Load({.name = "b", .path = a_.path}).ok());
      ASSERT_TRUE(client.Unload("a").ok());
      ASSERT_TRUE(client.Unload("b").ok());
      ++rounds;
    }
  });
  size_t most = 0;
  for (int i = 0; i < 100 || rounds < 3; ++i) {
    const json map = json::parse(BodyOf(Ask("/map.json")));
    for (const json& arena : map["devices"][0]["arenas"]) ASSERT_EQ(Imbalance(arena), "");
    most = std::max(most, map["devices"][0]["arenas"][0]["regions"].size());
  }
  stop = true;
  work.join();
  EXPECT_EQ(most, 2u);
}

TEST_F(HttpTest, ADaemonThatEndsIsNotReadyAndStillAnswers) {
  const Client client = daemon_.Connect();
  WeightLease lease = LoadAndLease(client, "a", a_);
  ASSERT_EQ(StatusOf("/readyz"), "200");
  ASSERT_EQ(kill(daemon_.pid(), SIGTERM), 0);
  EXPECT_TRUE(Eventually([&] { return StatusOf("/readyz") == "503"; }));
  EXPECT_EQ(StatusOf("/healthz"), "200");
  EXPECT_EQ(StatusOf("/metrics"), "200");
  const json ready = json::parse(BodyOf(Ask("/readyz")));
  EXPECT_EQ(ready["serving"], false);

  ASSERT_TRUE(lease.Release().ok());
  EXPECT_TRUE(Eventually([&] {
    try {
      return Ask("/healthz").empty();
    } catch (const std::runtime_error&) {
      return true;
    }
  }));
}

}  // namespace
}  // namespace tenure
