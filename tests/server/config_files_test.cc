#include <fstream>
#include <gtest/gtest.h>
#include <regex>
#include <sstream>
#include <string>

#include "server/config_keys.h"
#include "server/config_sources.h"

namespace tenure {
namespace {

std::string ReadFile(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(std::string(TENURE_CONFIGS) + "/" + name).rdbuf();
  return text.str();
}

TEST(ExampleConfigTest, HasEveryKeyWithItsDefault) {
  const StatusOr<LoadedConfig> loaded = ParseConfig(ReadFile("tenured.example.yaml"), "example");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const ConfigKey<Config>& key : ConfigKeys()) {
    EXPECT_TRUE(loaded->origins.contains(key.name)) << key.name << " is not in the file";
    EXPECT_EQ(key.write(loaded->config), key.write(Config())) << key.name;
  }
  EXPECT_TRUE(loaded->config.model_roots.empty());
  EXPECT_TRUE(loaded->config.devices.empty());
  EXPECT_TRUE(loaded->config.models.empty());
}

// What begins with `#` and two blanks is a sample of a list that is empty.
TEST(ExampleConfigTest, HasASampleOfEachListWithEveryKey) {
  std::string text = ReadFile("tenured.example.yaml");
  text.erase(0, text.find("\nmodel_roots:"));
  text = std::regex_replace(text, std::regex("\n#(?=  )"), "\n ");
  text = std::regex_replace(text, std::regex("\n(model_roots|devices|models): \\[\\]"), "\n$1:");
  const StatusOr<LoadedConfig> loaded = ParseConfig(text, "example");
  ASSERT_TRUE(loaded.ok()) << loaded.status() << "\n" << text;
  const auto expect = [&](const std::string& list, const auto& keys) {
    for (const auto& key : keys) {
      EXPECT_TRUE(loaded->origins.contains(list + "[0]." + key.name)) << list << ": " << key.name;
    }
  };
  expect("model_roots", RootKeys());
  expect("devices", DeviceKeys());
  expect("models", ModelKeys());
}

// A reader must find out of each key whether it takes effect at once.
TEST(ExampleConfigTest, SaysOfEachKeyWhetherAReloadTakesItOver) {
  const std::string text = ReadFile("tenured.example.yaml");
  const StatusOr<LoadedConfig> loaded = ParseConfig(text, "example");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<std::string> lines = {""};
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  for (const ConfigKey<Config>& key : ConfigKeys()) {
    auto line = static_cast<size_t>(loaded->origins.at(key.name).line);
    std::string about = lines[line];
    // A comment above may speak of several keys that follow each other.
    while (line > 1 && about.find('#') == std::string::npos) about = lines[--line] + about;
    while (line > 1 && std::regex_search(lines[line], std::regex("^ *#")) &&
           std::regex_search(lines[line - 1], std::regex("^ *#"))) {
      about = lines[--line] + about;
    }
    EXPECT_EQ(about.find("(reload)") != std::string::npos,
              key.takes_effect == TakesEffect::kOnReload)
        << key.name << ": " << about;
  }
}

TEST(ConfigFilesTest, ProductionAndQuickstartAreRight) {
  for (const char* name : {"production.yaml", "quickstart.yaml"}) {
    const StatusOr<LoadedConfig> loaded =
        Gather({.file = std::string(TENURE_CONFIGS) + "/" + name});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
  }
}

}  // namespace
}  // namespace tenure
