#include "server/config_sources.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "server/config_keys.h"
#include "server/config_print.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::HasSubstr;

// One value of each key, other than its default, as a file, the environment and a flag take it.
std::string OtherValue(const ConfigKey<Config>& key) {
  const std::string value = *key.write(Config());
  if (value == "true" || value == "false") return value == "true" ? "false" : "true";
  if (key.list) return "7, 8";
  // Whatever its kind, one of these is taken.
  if (value == "127.0.0.1:9400") return "127.0.0.1:1";
  for (const char* text : {"/elsewhere", "debug", "json", "7", "0640", "7s", "32MiB"}) {
    Config config;
    if (text != value && key.read(text, config).ok() && *key.write(config) != value) return text;
  }
  ADD_FAILURE() << "no other value for " << key.name;
  return value;
}

std::string Written(const Config& config, const std::string& key) {
  return FindConfigKey(key)->write(config).value();
}

class ConfigSourcesTest : public ::testing::Test {
 protected:
  // A file in which `key` is `value`.
  std::string FileWith(const std::string& key, const std::string& value) {
    const size_t dot = key.find('.');
    const std::string quoted = "\"" + value + "\"";
    return temp_.WriteFile(
        "f.yaml", dot == std::string::npos
                      ? key + ": " + quoted + "\n"
                      : key.substr(0, dot) + ":\n  " + key.substr(dot + 1) + ": " + quoted + "\n");
  }
  const TempDir temp_;
};

// Leaves out CheckConfig, which some of these values do not pass for other reasons.
TEST_F(ConfigSourcesTest, EveryKeyIsTakenFromFlagThenEnvironmentThenFile) {
  for (const ConfigKey<Config>& key : ConfigKeys()) {
    const std::string other = OtherValue(key);
    const std::string usual = *key.write(Config());
    const auto gather = [&](const ConfigSources& sources) {
      const StatusOr<LoadedConfig> loaded = Gather(sources);
      EXPECT_TRUE(loaded.ok()) << key.name << ": " << loaded.status();
      return loaded.value_or(LoadedConfig{});
    };
    const std::string variable = EnvironmentName(key.name);
    ConfigSources sources{.file = FileWith(key.name, other)};
    LoadedConfig loaded = gather(sources);
    EXPECT_EQ(Written(loaded.config, key.name), other);
    EXPECT_EQ(loaded.origins[key.name].kind, Origin::Kind::kFile) << key.name;

    sources.environment = {{variable, usual}};
    loaded = gather(sources);
    EXPECT_EQ(Written(loaded.config, key.name), usual);
    EXPECT_EQ(loaded.origins[key.name].Describe(), "environment " + variable);

    sources.flags = {{"--set", key.name, other}};
    loaded = gather(sources);
    EXPECT_EQ(Written(loaded.config, key.name), other);
    EXPECT_EQ(loaded.origins[key.name].Describe(), "flag --set");
  }
}

TEST_F(ConfigSourcesTest, NoTwoKeysHaveOneVariable) {
  std::set<std::string> names;
  for (const ConfigKey<Config>& key : ConfigKeys()) {
    EXPECT_TRUE(names.insert(EnvironmentName(key.name)).second) << key.name;
  }
  EXPECT_EQ(EnvironmentName("weights.retain_ttl"), "TENURED_WEIGHTS_RETAIN_TTL");
}

TEST_F(ConfigSourcesTest, TheClientsVariableNamesTheDirectoryUnlessTheDaemonsDoes) {
  ConfigSources sources{.file = FileWith("directory", "/file"),
                        .environment = {{"TENURE_DIR", "/clients"}}};
  EXPECT_EQ(Gather(sources)->config.directory, "/clients");
  sources.environment.insert(sources.environment.begin(), {"TENURED_DIRECTORY", "/daemons"});
  EXPECT_EQ(Gather(sources)->config.directory, "/daemons");
  sources.environment = {{"TENURE_DIR", ""}};
  EXPECT_EQ(Gather(sources)->config.directory, "/file");
}

TEST_F(ConfigSourcesTest, WhatIsWrongIsToldWithItsPlaceAndAllAtOnce) {
  const ConfigSources sources{
      .file = temp_.WriteFile("f.yaml", "copy_threads: 0\n"),
      .environment = {{"TENURED_WEIGHTS_RETAIN_TLL", "5s"}, {"TENURED_LEASES_TTL", "soon"}},
      .flags = {{"--set", "weights.ttl", "5s"}, {"--set", "devices", "[]"}},
      .model_roots = {"here"}};
  const std::string message(Gather(sources).status().message());
  EXPECT_THAT(message, HasSubstr("f.yaml:1: copy_threads: "));
  EXPECT_THAT(message, HasSubstr("environment TENURED_WEIGHTS_RETAIN_TLL: names no key"));
  EXPECT_THAT(message, HasSubstr("environment TENURED_LEASES_TTL: leases.ttl: expected a dur"));
  EXPECT_THAT(message, HasSubstr("flag --set: weights.ttl: is no key"));
  EXPECT_THAT(message, HasSubstr("flag --set: devices: lists stand in the file"));
  EXPECT_THAT(message, HasSubstr("flag --model-root: expected NAME=PATH"));
  EXPECT_THAT(
      std::string(
          Gather({.file = "", .environment = {{"TENURED_LEASES_TTL", "1s"}}}).status().message()),
      HasSubstr("environment TENURED_LEASES_TTL: leases.heartbeat_interval: must be"));
}

TEST_F(ConfigSourcesTest, WhatKubernetesSaysOfAServiceOfThatNameIsNoKey) {
  const ConfigSources sources{.file = "",
                              .environment = {{"TENURED_SERVICE_HOST", "10.0.0.1"},
                                              {"TENURED_SERVICE_PORT", "9400"},
                                              {"TENURED_SERVICE_PORT_METRICS", "9400"},
                                              {"TENURED_PORT", "tcp://10.0.0.1:9400"},
                                              {"TENURED_PORT_9400_TCP_ADDR", "10.0.0.1"}}};
  EXPECT_TRUE(Gather(sources).ok()) << Gather(sources).status();
}

TEST_F(ConfigSourcesTest, AModelRootFlagAddsOneOrTakesThePlaceOfTheFilesOne) {
  const ConfigSources sources{
      .file = temp_.WriteFile(
          "f.yaml", "model_roots: [{name: a, path: /file/a}, {name: b, path: /file/b}]\n"),
      .model_roots = {"b=/flag/b", "c=/flag/c"}};
  const StatusOr<LoadedConfig> loaded = Gather(sources);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_EQ(loaded->config.model_roots.size(), 3u);
  EXPECT_EQ(loaded->config.model_roots[0].path, "/file/a");
  EXPECT_EQ(loaded->config.model_roots[1].path, "/flag/b");
  EXPECT_EQ(loaded->config.model_roots[2].path, "/flag/c");
}

TEST_F(ConfigSourcesTest, WhatIsPrintedSaysWhereItComesFromAndIsReadBackTheSame) {
  const std::string file = temp_.WriteFile("f.yaml", R"(weights:
  retain_ttl: 5m
model_roots: [{name: a, path: "/with space/\"quotes\""}]
devices:
- {name: "host:1", total: 1GiB, weights: all-4MiB, runtime: 2MiB, huge_pages: "off"}
models:
- {name: off, path: a/b, pin: true, retain_ttl: never}
)");
  const StatusOr<LoadedConfig> loaded =
      Gather({.file = file,
              .environment = {{"TENURED_LOG_LEVEL", "debug"}},
              .flags = {{"--set", "metrics.address", ""}, {"--set", "admin.uids", "5,6"}}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const std::string text = PrintConfig(*loaded);
  EXPECT_THAT(text, testing::ContainsRegex("\n  retain_ttl: 5m +# file [^\n]*f.yaml:2\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  level: debug +# environment TENURED_LOG_LEVEL\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  address: \"\" +# flag --set\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n  cache_ttl: never +# default\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n    weights: all-4MiB +# file [^\n]*f.yaml:5\n"));

  const StatusOr<LoadedConfig> again = ParseConfig(text, "again.yaml");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << text;
  for (const ConfigKey<Config>& key : ConfigKeys()) {
    EXPECT_EQ(key.write(again->config), key.write(loaded->config)) << key.name;
  }
  ASSERT_EQ(again->config.devices.size(), 1u);
  for (const ConfigKey<DeviceConfig>& key : DeviceKeys()) {
    EXPECT_EQ(key.write(again->config.devices[0]), key.write(loaded->config.devices[0]));
  }
  ASSERT_EQ(again->config.model_roots.size(), 1u);
  EXPECT_EQ(again->config.model_roots[0].path, "/with space/\"quotes\"");
  EXPECT_EQ(again->config.models, loaded->config.models);
}

}  // namespace
}  // namespace tenure
