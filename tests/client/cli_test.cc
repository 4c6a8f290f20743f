// tenurectl against a daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tenure/client.h"
#include "tests/client/model_files.h"
#include "tests/client/program.h"
#include "tests/support/daemon_process.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class CliTest : public ::testing::Test {
 protected:
  struct Outcome {
    int code = 0;
    std::string out;
    std::string err;
  };

  Outcome Run(std::vector<std::string> arguments) {
    std::vector<std::string> all = {TENURECTL_PATH, "--directory", daemon_.directory()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    Program program(std::move(all), temp_ / "ctl");
    Outcome outcome;
    outcome.code = program.Wait();
    outcome.out = program.Out();
    outcome.err = program.Err();
    return outcome;
  }

  DaemonProcess daemon_{DaemonSettings{}};
  const TempDir temp_;
};

TEST_F(CliTest, LoadsShowsAndUnloadsAModel) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Outcome load = Run({"load", "team/a", "models/a.safetensors", "--pin"});
  EXPECT_EQ(load.code, 0) << load.err;
  EXPECT_THAT(load.out, HasSubstr("team/a@1 on " + TestDeviceName() + ": fresh, 8"));
  EXPECT_THAT(load.out, HasSubstr(" created, 0 reused\n"));

  const Outcome models = Run({"models"});
  EXPECT_THAT(models.out, HasSubstr("NAME"));
  EXPECT_THAT(models.out, HasSubstr("team/a"));
  EXPECT_THAT(models.out, HasSubstr(file.path));

  const Outcome model = Run({"model", "team/a", "--tensors"});
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_THAT(model.out, HasSubstr("active"));
  EXPECT_THAT(model.out, HasSubstr(file.specs[0].name));

  const Outcome unload = Run({"unload", "team/a"});
  EXPECT_EQ(unload.code, 0) << unload.err;
  EXPECT_THAT(unload.out, HasSubstr("team/a: retained, 0 B freed"));
}

TEST_F(CliTest, PrintsJsonThatParses) {
  WriteModel(daemon_, "a", 8);
  const json load = json::parse(Run({"--json", "load", "a", "models/a.safetensors"}).out);
  EXPECT_EQ(load["reuse"], "fresh");
  EXPECT_EQ(load["model"]["name"], "a");
  const json models = json::parse(Run({"--json", "models"}).out);
  EXPECT_EQ(models["models"].size(), 1u);
  const json arenas = json::parse(Run({"arenas", "--json"}).out)["devices"][0]["arenas"][0];
  EXPECT_EQ(arenas["capacity"].get<uint64_t>(),
            arenas["leased"].get<uint64_t>() + arenas["loading"].get<uint64_t>() +
                arenas["idle"].get<uint64_t>() + arenas["retained"].get<uint64_t>() +
                arenas["quarantined"].get<uint64_t>() + arenas["padding"].get<uint64_t>() +
                arenas["free"].get<uint64_t>());
  const json sessions = json::parse(Run({"--json", "sessions"}).out);
  EXPECT_EQ(sessions["sessions"].back()["program"], "tenurectl");
  EXPECT_EQ(json::parse(Run({"--json", "health"}).out)["serving"], true);
  EXPECT_EQ(json::parse(Run({"--json", "version"}).out)["tenured"]["version"],
            std::string(client::Version()));
}

TEST_F(CliTest, PrintsTheWholeLedger) {
  const Outcome arenas = Run({"arenas"});
  EXPECT_EQ(arenas.code, 0) << arenas.err;
  for (const char* row : {"capacity", "leased", "loading", "idle", "retained", "quarantined",
                          "padding", "stranded", "free", "cached", "unbacked", "reserved",
                          "allocated", "requested", "largest_free", "fragmentation"}) {
    EXPECT_THAT(arenas.out, HasSubstr(std::string("\n") + row)) << row;
  }
}

TEST_F(CliTest, OnlyChecksAFileWithValidateOnly) {
  WriteModel(daemon_, "a", 8);
  const Outcome good = Run({"load", "a", "models/a.safetensors", "--validate-only"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_THAT(good.out, HasSubstr("is valid"));
  EXPECT_THAT(Run({"models"}).out, HasSubstr("no models"));
}

TEST_F(CliTest, AFailureTellsItsReasonAndWhatHelps) {
  const Outcome missing = Run({"model", "nobody"});
  EXPECT_EQ(missing.code, 4);
  EXPECT_EQ(missing.out, "");
  EXPECT_THAT(missing.err, HasSubstr("reason: MODEL_NOT_FOUND"));
  EXPECT_THAT(missing.err, HasSubstr("hint: "));

  const json error = json::parse(Run({"--json", "load", "x", "/etc/passwd"}).err)["error"];
  EXPECT_EQ(error["reason"], "PATH_OUTSIDE_ROOTS");
}

TEST_F(CliTest, ExitCodesTellTheKindsOfFailureApart) {
  EXPECT_EQ(Run({"nonsense"}).code, 2);
  EXPECT_EQ(Run({"load", "a"}).code, 2);
  EXPECT_EQ(Run({"--timeout", "soon", "models"}).code, 2);
  EXPECT_EQ(Run({"--help"}).code, 0);
  EXPECT_EQ(Run({"--timeout", "200ms", "watch", "nobody"}).code, 5);
  EXPECT_EQ(Run({"health"}).code, 0);
  daemon_.Kill();
  EXPECT_EQ(Run({"models"}).code, 3);
  EXPECT_EQ(Run({"health"}).code, 3);
  EXPECT_EQ(Run({"version"}).code, 3);
}

}  // namespace
}  // namespace tenure
