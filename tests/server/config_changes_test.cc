#include "server/config_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "server/config_keys.h"

namespace tenure {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

LoadedConfig Parse(const std::string& text) {
  const StatusOr<LoadedConfig> loaded = ParseConfig(text, "f.yaml");
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return loaded.value_or(LoadedConfig{});
}

ConfigChanges Between(const std::string& before, const std::string& after) {
  return Compare(Parse(before).config, Parse(after));
}

std::string Describe(const ConfigChange& change) {
  return change.key + ": " + change.before + " -> " + change.after;
}

TEST(ConfigChangesTest, EqualConfigurationsChangeNothing) {
  const char* text = "devices: [{name: \"host:0\"}]\nmodels: [{name: a, path: b}]\n";
  const ConfigChanges changes = Between(text, text);
  EXPECT_THAT(changes.changes, IsEmpty());
  EXPECT_THAT(changes.refusals, IsEmpty());
}

TEST(ConfigChangesTest, WhatTakesEffectAtOnceIsTold) {
  const ConfigChanges changes = Between("", "weights: {retain_ttl: 5m}\nadmin: {uids: [5]}\n");
  EXPECT_THAT(changes.refusals, IsEmpty());
  ASSERT_EQ(changes.changes.size(), 2u);
  EXPECT_EQ(Describe(changes.changes[0]), "admin.uids:  -> 5");
  EXPECT_EQ(Describe(changes.changes[1]), "weights.retain_ttl: 10m -> 5m");
}

TEST(ConfigChangesTest, WhatNeedsARestartIsRefusedWithALineForEach) {
  const ConfigChanges changes =
      Between("devices:\n- {weights: 50%}\nmodel_roots: [{name: a, path: /a}]\n",
              "directory: /elsewhere\nweights:\n  segment_size: 32MiB\ndevices:\n- {weights: 60%}\n"
              "model_roots: [{name: a, path: /a}, {name: b, path: /b}]\nlog: {level: debug}\n");
  EXPECT_THAT(
      changes.refusals,
      ElementsAre(
          AllOf(StartsWith("f.yaml:1: directory: cannot change from /run/tenure to /elsewhere")),
          StartsWith("f.yaml:3: weights.segment_size: cannot change from 64MiB to 32MiB"),
          StartsWith("f.yaml:6: model_roots: cannot change from 1 of them to 2"),
          StartsWith("f.yaml:5: devices[0].weights: cannot change from 50% to 60%")));
}

TEST(ConfigChangesTest, AKeyThatIsTakenOutGoesBackToItsDefault) {
  const ConfigChanges changes = Between("copy_threads: 5\ndrain_timeout: 1s\n", "");
  EXPECT_THAT(changes.refusals, ElementsAre(StartsWith("default: copy_threads: cannot change")));
  ASSERT_EQ(changes.changes.size(), 1u);
  EXPECT_EQ(Describe(changes.changes[0]), "drain_timeout: 1s -> 30s");
}

TEST(ConfigChangesTest, ModelsComeAndGoAndChange) {
  const ConfigChanges changes = Between(
      "models:\n- {name: gone, path: r/g}\n- {name: same, path: r/s}\n- {name: new, path: r/1}\n",
      "models:\n- {name: new, path: r/2, pin: true}\n- {name: same, path: r/s}\n"
      "- {name: more, path: r/m, retain_ttl: 5m}\n");
  EXPECT_THAT(changes.refusals, IsEmpty());
  ASSERT_EQ(changes.changes.size(), 3u);
  EXPECT_EQ(Describe(changes.changes[0]), "models.gone: r/g -> none");
  EXPECT_EQ(Describe(changes.changes[1]), "models.more: none -> r/m, retain_ttl 5m");
  EXPECT_EQ(Describe(changes.changes[2]), "models.new: r/1 -> r/2, pin true");
}

}  // namespace
}  // namespace tenure
