#include "server/config.h"

#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

std::string Message(const Status& status) { return std::string(status.message()); }

// Without what says where each value comes from.
StatusOr<Config> Parse(const std::string& text) {
  StatusOr<LoadedConfig> loaded = ParseConfig(text, "f.yaml");
  if (!loaded.ok()) return loaded.status();
  return std::move(loaded->config);
}

TEST(ConfigTest, AnEmptyFileIsTheDefaults) {
  for (const char* text : {"", "# nothing\n", "log:\nweights:\n"}) {
    const StatusOr<Config> config = Parse(text);
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->directory, "/run/tenure");
    EXPECT_EQ(config->retain_ttl, std::chrono::minutes(10));
    EXPECT_TRUE(CheckConfig(*config).ok());
  }
}

TEST(ConfigTest, EveryKeyIsRead) {
  const StatusOr<Config> config = Parse(R"(
directory: /tmp/d
log: {level: debug, format: json}
metrics: {address: "", model_bytes: true}
model_roots:
  - {name: a, path: /models/a}
  - {name: b, path: /models/b}
models:
  - {name: m, path: a/m, device: "host:1", pin: true, retain_ttl: never}
  - {name: n, path: a/n}
devices:
  - {name: "host:1", backend: host, total: 1GiB, weights: 25%, huge_pages: try}
  - {backend: cuda, uuid: GPU-7e4e, total: 90%, weights: all-2GiB, runtime: 1GiB}
weights: {segment_size: 4MiB, single_segment: true, retain_ttl: 0, cache_ttl: never, recall_wait: 50ms,
          idle_unload_after: 1h, concurrent_loads: 3}
leases: {ttl: 20s, heartbeat_interval: 4s}
sessions: {death_grace: 0s}
drain_timeout: 1m
driver_timeout: 7s
copy_threads: 5
max_watchers: 0
planner: {budget: 1s, cache: 0, threads: 4}
socket: {mode: 0600, group: "1000"}
admin: {uids: [1000, 1001], gids: 5, unload: true}
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->directory, "/tmp/d");
  EXPECT_EQ(config->log.level, "debug");
  EXPECT_EQ(config->log.format, LogFormat::kJson);
  EXPECT_EQ(config->metrics_address, "");
  ASSERT_EQ(config->model_roots.size(), 2u);
  EXPECT_EQ(config->model_roots[1].name, "b");
  EXPECT_EQ(config->model_roots[1].path, "/models/b");
  EXPECT_EQ(
      config->models,
      (std::vector<WantedModel>{
          {.name = "m", .path = "a/m", .device = "host:1", .pin = true, .retain_ttl = kForever},
          {.name = "n", .path = "a/n"}}));
  ASSERT_EQ(config->devices.size(), 2u);
  EXPECT_EQ(config->devices[0].name, "host:1");
  EXPECT_EQ(config->devices[0].total, Amount(GiB(1)));
  EXPECT_EQ(config->devices[0].weights, Amount(Percent{25}));
  EXPECT_EQ(config->devices[0].huge_pages, HugePages::kTry);
  EXPECT_EQ(config->devices[1].name, "gpu:0");
  EXPECT_EQ(config->devices[1].backend, Backend::kCuda);
  EXPECT_EQ(config->devices[1].uuid, "GPU-7e4e");
  EXPECT_EQ(config->devices[1].total, Amount(Percent{90}));
  EXPECT_EQ(config->devices[1].weights, Amount(AllBut{GiB(2)}));
  EXPECT_EQ(config->devices[1].runtime, Amount(GiB(1)));
  EXPECT_EQ(config->devices[1].place, "f.yaml:13");
  EXPECT_EQ(config->driver_timeout, seconds(7));
  EXPECT_EQ(config->segment_size, MiB(4));
  EXPECT_TRUE(config->single_segment);
  EXPECT_EQ(config->retain_ttl, Duration::zero());
  EXPECT_EQ(config->cache_ttl, kForever);
  EXPECT_EQ(config->recall_wait, std::chrono::milliseconds(50));
  EXPECT_EQ(config->idle_unload_after, std::chrono::hours(1));
  EXPECT_EQ(config->concurrent_loads, 3);
  EXPECT_EQ(config->lease_ttl, seconds(20));
  EXPECT_EQ(config->heartbeat_interval, seconds(4));
  EXPECT_EQ(config->death_grace, Duration::zero());
  EXPECT_EQ(config->drain_timeout, seconds(60));
  EXPECT_EQ(config->copy_threads, 5);
  EXPECT_EQ(config->max_watchers, 0);
  EXPECT_EQ(config->planner.budget, seconds(1));
  EXPECT_EQ(config->planner.cache, Bytes(0));
  EXPECT_EQ(config->planner.threads, 4);
  EXPECT_TRUE(config->metrics_model_bytes);
  EXPECT_EQ(config->socket.mode, 0600u);
  EXPECT_EQ(config->socket.group, "1000");
  EXPECT_EQ(config->admin.uids, (std::vector<uint32_t>{1000, 1001}));
  EXPECT_EQ(config->admin.gids, std::vector<uint32_t>{5});
  EXPECT_TRUE(config->admin.unload);
  EXPECT_TRUE(CheckConfig(*config).ok());
}

TEST(ConfigTest, FaultsNameFileLineAndKey) {
  struct Case {
    const char* text;
    const char* fault;
  };
  const Case kCases[] = {
      {"weights:\n  retain_tll: 5s\n", "f.yaml:2: weights.retain_tll: is no key"},
      {"\nspeed: fast\n", "f.yaml:2: speed: is no key"},
      {"directory: /a\ndirectory: /b\n", "f.yaml:2: directory: comes twice"},
      {"directory: [/a]\n", "f.yaml:1: directory: expected a single value"},
      {"weights: 70%\n", "f.yaml:1: weights: expected keys and values"},
      {"- a\n", "f.yaml:1: the file: expected keys and values"},
      {"devices: {name: \"host:0\"}\n", "f.yaml:1: devices: expected a list"},
      {"devices:\n- name: host:0\n  wieghts: 5\n", "f.yaml:3: devices[0].wieghts: is no key"},
      {"devices:\n- backend: tape\n", "f.yaml:2: devices[0].backend: expected one of host, cuda"},
      {"devices:\n- huge_pages: maybe\n", "f.yaml:2: devices[0].huge_pages: expected one of off"},
      {"devices:\n- weights: 120%\n", "f.yaml:2: devices[0].weights: expected a size"},
      {"devices:\n- total: 0%\n", "f.yaml:2: devices[0].total: expected a size"},
      {"devices:\n- total: all-\n", "f.yaml:2: devices[0].total: expected a size"},
      {"socket: {mode: 999}\n", "socket.mode: expected an octal mode"},
      {"socket: {mode: 0066}\n", "socket.mode: expected an octal mode"},
      {"admin: {uids: [root]}\n", "admin.uids: expected whole numbers, not \"root\""},
      {"admin: {uids: [[1]]}\n", "admin.uids: expected single values"},
      {"admin:\n  unlaod: true\n", "f.yaml:2: admin.unlaod: is no key"},
      {"model_roots:\n- {path: /a}\n", "f.yaml:2: model_roots[0]: name is missing"},
      {"models:\n- {name: a}\n", "f.yaml:2: models[0]: path is missing"},
      {"models:\n- {name: \"a b\", path: x}\n", "f.yaml:2: models[0]: a model's name has"},
      {"models:\n- {name: a, path: x, pin: maybe}\n", "models[0].pin: expected true or false"},
      {"log: {level: loud}\n", "f.yaml:1: log.level: expected one of trace, debug"},
      {"planner: {budget: 0}\n", "planner.budget: must be at least 1ms, not \"0\""},
      {"planner: {budget: 11s}\n", "planner.budget: must be at most 10s, not \"11s\""},
      {"planner: {budget: never}\n", "planner.budget: cannot be never"},
      {"planner: {cache: 65GiB}\n", "planner.cache: must be at most 64GiB, not \"65GiB\""},
      {"planner: {threads: 0}\n", "planner.threads: expected a whole number from 1 to 256"},
      {"copy_threads: 0\n", "f.yaml:1: copy_threads: expected a whole number from 1"},
      {"copy_threads: 2KiB\n", "f.yaml:1: copy_threads: expected a whole number from 1"},
      {"weights: {segment_size: 3MiB}\n", "weights.segment_size: must be a multiple of 2MiB"},
      {"weights: {segment_size: 0}\n", "weights.segment_size: must be a multiple of 2MiB"},
      {"weights: {recall_wait: 0}\n", "weights.recall_wait: must be at least 1ms"},
      {"weights: {recall_wait: never}\n", "weights.recall_wait: cannot be never"},
      {"leases: {ttl: 99ms}\n", "leases.ttl: must be at least 100ms"},
      {"leases: {ttl: never}\n", "leases.ttl: cannot be never"},
      {"a: [1\n", "f.yaml:2: "},
      {"directory: /a\n---\ndirectory: /b\n", "expected one document"},
  };
  for (const Case& each : kCases) {
    const StatusOr<Config> config = Parse(each.text);
    ASSERT_FALSE(config.ok()) << each.text;
    EXPECT_THAT(Message(config.status()), HasSubstr(each.fault));
  }
}

TEST(ConfigTest, ATtlThatIsNoDurationIsRefused) {
  for (const char* value :
       {"-1", "\"\"", "5 m", "1e18", "5", "true", "~", "[]", "{}", "1h 30m", ".inf"}) {
    for (const char* key : {"retain_ttl", "cache_ttl", "idle_unload_after"}) {
      const std::string text = std::string("weights:\n  ") + key + ": " + value + "\n";
      const StatusOr<Config> config = Parse(text);
      ASSERT_FALSE(config.ok()) << text;
      EXPECT_THAT(Message(config.status()), HasSubstr(std::string("f.yaml:2: weights.") + key));
    }
  }
}

TEST(ConfigTest, AllFaultsAreToldAtOnce) {
  const StatusOr<Config> config = Parse("a: 1\nb: 2\ncopy_threads: x\n");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(Message(config.status()), HasSubstr("f.yaml:1: a"));
  EXPECT_THAT(Message(config.status()), HasSubstr("f.yaml:2: b"));
  EXPECT_THAT(Message(config.status()), HasSubstr("f.yaml:3: copy_threads"));
}

TEST(ConfigTest, AFileThatIsMissingIsRefused) {
  const TempDir directory;
  EXPECT_THAT(Message(LoadConfig(directory / "no.yaml").status()), HasSubstr("no.yaml"));
  EXPECT_FALSE(LoadConfig(directory.path()).ok());
}

TEST(CheckConfigTest, RefusesWhatContradictsItself) {
  const auto fault = [](auto change) {
    Config config;
    change(config);
    return Message(CheckConfig(config));
  };
  EXPECT_THAT(fault([](Config& c) { c.directory = "run"; }), HasSubstr("absolute"));
  EXPECT_THAT(fault([](Config& c) { c.directory = "/" + std::string(100, 'd'); }),
              HasSubstr("longer"));
  EXPECT_THAT(fault([](Config& c) { c.metrics_address = "9400"; }), HasSubstr("metrics.address"));
  EXPECT_THAT(fault([](Config& c) { c.metrics_address = "localhost:65536"; }),
              HasSubstr("metrics.address"));
  EXPECT_THAT(fault([](Config& c) { c.heartbeat_interval = c.lease_ttl; }),
              HasSubstr("heartbeat_interval"));
  EXPECT_THAT(fault([](Config& c) {
                c.model_roots = {{"a", "/"}, {"a", "/"}};
              }),
              HasSubstr("twice"));
  EXPECT_THAT(fault([](Config& c) { c.model_roots = {{"a/b", "/"}}; }), HasSubstr("a/b"));
  EXPECT_THAT(fault([](Config& c) { c.devices.resize(2); }), HasSubstr("twice"));
  EXPECT_THAT(fault([](Config& c) {
                c.devices.resize(1);
                c.devices[0].name = "gpu:0";
              }),
              HasSubstr("gpu:0"));
  EXPECT_THAT(fault([](Config& c) {
                c.devices.resize(1);
                c.devices[0].uuid = "GPU-7e4e";
              }),
              HasSubstr("uuid is for GPUs"));
  EXPECT_THAT(fault([](Config& c) {
                c.devices.resize(1);
                c.devices[0].name = "gpu:0";
                c.devices[0].backend = Backend::kCuda;
                c.devices[0].huge_pages = HugePages::kTry;
              }),
              HasSubstr("huge_pages are for the host's memory"));
  EXPECT_THAT(fault([](Config& c) { c.models = {{.name = "m", .path = "p", .device = "host:1"}}; }),
              HasSubstr("no device host:1"));
  EXPECT_EQ(fault([](Config& c) { c.models = {{.name = "m", .path = "p", .device = "host:0"}}; }),
            "");
  EXPECT_THAT(fault([](Config& c) {
                c.models = {{.name = "m", .path = "p"}, {.name = "m", .path = "q"}};
              }),
              HasSubstr("comes twice: m"));
}

TEST(CheckConfigTest, AFaultNamesThePlaceOfTheValue) {
  const auto fault = [](const std::string& text) {
    const StatusOr<LoadedConfig> loaded = ParseConfig(text, "f.yaml");
    if (!loaded.ok()) return Message(loaded.status());
    return Message(CheckConfig(loaded->config, loaded->origins));
  };
  EXPECT_THAT(fault("leases:\n  heartbeat_interval: 40s\n"),
              StartsWith("f.yaml:2: leases.heartbeat_interval: must be shorter"));
  EXPECT_THAT(fault("leases:\n  ttl: 5s\n"), StartsWith("f.yaml:2: leases.heartbeat_interval"));
  EXPECT_THAT(fault("\ndirectory: run\n"), StartsWith("f.yaml:2: directory: expected an absolute"));
  EXPECT_THAT(fault("devices:\n- name: host:0\n- weights: 5%\n"),
              StartsWith("f.yaml:3: devices: the name comes twice: host:0"));
  EXPECT_THAT(fault("devices:\n- {weights: 5%}\n- weights: 5%\n  name: host:0\n"),
              StartsWith("f.yaml:4: devices: the name comes twice: host:0"));
  EXPECT_THAT(fault("models:\n- {name: a, path: x}\n- {name: a, path: y}\n"),
              StartsWith("f.yaml:3: models: the name comes twice: a"));
}

}  // namespace
}  // namespace tenure
