// What the command line of a daemon makes of flags, environment and file.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/client/program.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

using testing::HasSubstr;

class ConfigTest : public ::testing::Test {
 protected:
  struct Ran {
    int status;
    std::string out;
    std::string err;
  };
  // Runs a daemon that only looks at its configuration, with these variables in its environment.
  Ran Run(std::vector<std::string> arguments, std::vector<std::string> variables = {}) const {
    std::vector<std::string> command = {"/usr/bin/env", "-u", "TENURE_DIR"};
    command.insert(command.end(), variables.begin(), variables.end());
    command.emplace_back(TENURED_PATH);
    command.insert(command.end(), arguments.begin(), arguments.end());
    Program program(std::move(command), temp_ / "tenured");
    const int status = program.Wait();
    return {status, program.Out(), program.Err()};
  }

  // Starts one of the configurations that come with the daemon, in a directory of this test's.
  void ExpectServes(const std::string& config, const std::string& root) const {
    Program daemon({TENURED_PATH, "--config", std::string(TENURE_CONFIGS) + "/" + config,
                    "--directory", temp_ / "run", "--metrics-address", "127.0.0.1:0",
                    "--model-root", root + "=" + temp_.MakeDir("models")},
                   temp_ / "tenured");
    ASSERT_TRUE(Eventually([this] {
      return client::CheckHealth(temp_ / "run", std::chrono::seconds(1)).value_or(false);
    })) << daemon.Err();
    const absl::StatusOr<Client> client =
        Client::Connect({.directory = temp_ / "run", .program = "test"});
    ASSERT_TRUE(client.ok()) << client.status();
    EXPECT_TRUE(client->Status()->readiness.ready);
  }

  const TempDir temp_;
};

TEST_F(ConfigTest, TheExampleServes) { ExpectServes("tenured.example.yaml", "demo"); }

TEST_F(ConfigTest, TheQuickstartServes) { ExpectServes("quickstart.yaml", "demo"); }

TEST_F(ConfigTest, WhatIsPrintedNamesEachOriginAndIsTakenAgain) {
  const std::string file = temp_.WriteFile(
      "f.yaml", "devices: [{total: 64MiB}]\nweights: {retain_ttl: 5m}\ndirectory: /tmp/f\n");
  const Ran first = Run({"--config", file, "--print-config", "--set", "leases.ttl=20s"},
                        {"TENURED_LOG_LEVEL=debug", "TENURE_DIR=" + temp_ / "clients"});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.out, testing::ContainsRegex("\n  retain_ttl: 5m +# file " + file + ":2\n"));
  EXPECT_THAT(first.out,
              testing::ContainsRegex("\n  level: debug +# environment TENURED_LOG_LEVEL\n"));
  EXPECT_THAT(first.out, testing::ContainsRegex("\n  ttl: 20s +# flag --set\n"));
  EXPECT_THAT(first.out, testing::ContainsRegex("\n  pool_ttl: 30s +# default\n"));
  EXPECT_THAT(first.out, testing::ContainsRegex("directory: .*clients +# environment TENURE_DIR"));

  const std::string printed = temp_.WriteFile("printed.yaml", first.out);
  const Ran second = Run({"--config", printed, "--print-config"});
  ASSERT_EQ(second.status, 0) << second.err;
  const auto values = [](const std::string& text) {
    std::string kept;
    for (size_t at = 0; at < text.size();) {
      const size_t end = text.find('\n', at);
      kept += text.substr(at, text.find(" #", at) - at) + "\n";
      at = end + 1;
    }
    while (kept.find("  \n") != std::string::npos) kept.erase(kept.find("  \n"), 1);
    return kept;
  };
  EXPECT_EQ(values(second.out), values(first.out));
}

TEST_F(ConfigTest, CheckConfigSaysWhatIsWrongAndWhere) {
  const auto refusal = [&](const std::string& yaml, std::vector<std::string> variables = {}) {
    const std::string file = temp_.WriteFile("f.yaml", yaml);
    const Ran ran = Run({"--config", file, "--check-config"}, std::move(variables));
    EXPECT_EQ(ran.status, 1) << yaml;
    return ran.err;
  };
  const std::string file = temp_ / "f.yaml";
  EXPECT_THAT(refusal("weights:\n  retain_tll: 5m\n"), HasSubstr(file + ":2: weights.retain_tll"));
  EXPECT_THAT(refusal("leases:\n  heartbeat_interval: 1m\n"),
              HasSubstr(file + ":2: leases.heartbeat_interval: must be shorter"));
  EXPECT_THAT(refusal("\ndevices:\n- total: 64MiB\n  weights: 80%\n  runtime: 30%\n"),
              HasSubstr(file + ":3: devices: weights and runtime are more than the total"));
  EXPECT_THAT(refusal("devices:\n- {total: 64MiB, weights: all-64MiB}\n"),
              HasSubstr(file + ":2: devices: the weights of host:0 are less than 2 MiB"));
  EXPECT_THAT(refusal("devices: [{total: 64MiB}]\n", {"TENURED_WEIGHTS_RETAIN_TLL=5m"}),
              HasSubstr("environment TENURED_WEIGHTS_RETAIN_TLL: names no key"));
  temp_.WriteFile("f.yaml", "devices: [{total: 64MiB, weights: all-16MiB}]\n");
  const Ran good = Run({"--config", file, "--check-config"});
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_EQ(good.out, "OK\n");
}

}  // namespace
}  // namespace tenure
