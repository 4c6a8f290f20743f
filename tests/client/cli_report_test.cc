// What tenurectl tells of events, peaks, leaks and refusals.

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/client/cli_fixture.h"
#include "tests/client/model_files.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class CliReportTest : public CliTest {
 protected:
  void Load(const std::string& name) {
    WriteModel(daemon_, name, 8);
    const Outcome load = Run({"load", name, "models/" + name + ".safetensors"});
    EXPECT_EQ(load.code, 0) << load.err;
  }
};

TEST_F(CliReportTest, TellsWhatHappened) {
  Load("a");
  EXPECT_EQ(Run({"unload", "a"}).code, 0);
  const Outcome events = Run({"events"});
  EXPECT_EQ(events.code, 0) << events.err;
  EXPECT_THAT(events.out, HasSubstr("LOADED"));
  EXPECT_THAT(events.out, HasSubstr("a@1"));
  EXPECT_THAT(events.out, HasSubstr("FRESH"));
  EXPECT_THAT(events.out, HasSubstr("OFFLINE"));
  EXPECT_THAT(events.out, HasSubstr("  free "));

  const json loaded = json::parse(Run({"--json", "events", "--kind", "LOADED"}).out);
  EXPECT_EQ(loaded["subject"], "a@1");
  EXPECT_EQ(loaded["ledger"]["arena"], "weights");
  EXPECT_EQ(loaded["device"], TestDeviceName());
  EXPECT_THAT(Run({"events", "--last", "1"}).out, Not(HasSubstr("LOADED")));
}

TEST_F(CliReportTest, FollowsWhatHappensUntilTheDaemonEnds) {
  Program follower({TENURECTL_PATH, "--directory", daemon_.directory(), "--json", "events",
                    "--follow", "--kind", "LOADED"},
                   temp_ / "follower");
  Load("a");
  while (follower.Out().find("a@1") == std::string::npos) {
  }
  EXPECT_EQ(json::parse(follower.Out())["subject"], "a@1");
  daemon_.Kill();
  EXPECT_NE(follower.Wait(), 0);
}

TEST_F(CliReportTest, SumsEachArenaUpInPyTorchsWords) {
  Load("a");
  EXPECT_EQ(Run({"unload", "a"}).code, 0);
  const Outcome summary = Run({"summary"});
  EXPECT_EQ(summary.code, 0) << summary.err;
  EXPECT_THAT(summary.out, StartsWith("|==="));
  for (const char* part : {"Tenure memory summary: ", "requests: 1   failed: 0   retries: 0",
                           "Allocated memory", "Peak Usage", "Reserved memory"}) {
    EXPECT_THAT(summary.out, HasSubstr(part));
  }
  const auto weights = [this](std::vector<std::string> arguments) {
    return json::parse(Run(std::move(arguments)).out)[0];
  };
  const json before = weights({"--json", "summary", "--reset-peak"});
  EXPECT_GT(before["peak_allocated"], 0);
  EXPECT_EQ(before["ledger"]["allocated"], 0);
  EXPECT_EQ(before["inactive"], before["ledger"]["retained"]);
  EXPECT_EQ(weights({"--json", "summary"})["peak_allocated"], 0);
}

TEST_F(CliReportTest, SaysWhetherAnythingLeaks) {
  const Outcome leaks = Run({"leaks"});
  EXPECT_EQ(leaks.code, 0) << leaks.err;
  EXPECT_EQ(leaks.out, "nothing has been held for suspiciously long\n");
  EXPECT_TRUE(json::parse(Run({"--json", "leaks"}).out)["leaks"].empty());
}

TEST_F(CliReportTest, ExplainsTheLastRefusalAndTheUsualCauses) {
  EXPECT_EQ(Run({"explain"}).code, 4);
  WriteModel(daemon_, "big", 300);
  EXPECT_EQ(Run({"load", "big", "models/big.safetensors"}).code, 1);
  const Outcome explained = Run({"explain"});
  EXPECT_EQ(explained.code, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("\n> CAPACITY: it is more than the arena has."));
  for (const char* cause :
       {"\n  HELD_BY_LEASES: ", "\n  FRAGMENTED: ", "\n  RECLAIM_PENDING: ", "\n  BACKEND: "}) {
    EXPECT_THAT(explained.out, HasSubstr(cause));
  }
}

TEST_F(CliReportTest, AFlightRecordIsAMapWithEvents) {
  Load("a");
  const std::string path = temp_ / "record.json";
  const Outcome dump = Run({"dump", path});
  EXPECT_EQ(dump.code, 0) << dump.err;
  std::ifstream file(path);
  const json record = json::parse(file);
  EXPECT_EQ(record["schema"], 1);
  EXPECT_EQ(record["events"][1]["kind"], "EVENT_KIND_LOADED");
  EXPECT_FALSE(record.contains("refusal"));
  const Outcome map = Run({"map", "--from", path});
  EXPECT_EQ(map.code, 0) << map.err;
  EXPECT_THAT(map.out, HasSubstr("a@1"));
  EXPECT_EQ(json::parse(Run({"dump"}).out)["map"]["schema"], 1);
}

// field case 2
TEST_F(CliReportTest, ARefusalLeavesAFlightRecordBesideTheSockets) {
  Load("a");
  WriteModel(daemon_, "big", 300);
  EXPECT_EQ(Run({"load", "big", "models/big.safetensors"}).code, 1);
  const std::string path = daemon_.directory() + "/flight/refusal-1.json";
  while (!std::ifstream(path)) {
  }
  EXPECT_THAT(Run({"map", "--from", path}).out, HasSubstr("a@1"));
}

}  // namespace
}  // namespace tenure
