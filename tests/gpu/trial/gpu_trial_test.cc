// Runs the whole trial over the emulated driver: what needs no kernel must be right there too.

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <stdlib.h>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/client/program.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

class GpuTrialTest : public testing::Test {
 protected:
  // The program's exit status, with the emulated driver or where `environment` leads it.
  int Run(std::vector<std::string> arguments, const std::vector<std::string>& environment) {
    for (const std::string& variable : environment) {
      const size_t equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    arguments.insert(arguments.begin(), {TRIAL_PATH, "--mib", "16", "--json", json_});
    Program program(std::move(arguments), temp_ / "trial");
    const int status = program.Wait();
    out_ = program.Out();
    err_ = program.Err();
    return status;
  }

  TempDir temp_{"/dev/shm"};
  EmulatedGpu machine_{temp_ / "machine"};
  const std::string json_ = temp_ / "trial.json";
  std::string out_;
  std::string err_;
};

TEST_F(GpuTrialTest, WhatNeedsNoKernelPassesOverTheEmulatedDriverAndTheRestSaysWhy) {
  ASSERT_EQ(Run({"--seconds", "200"}, machine_.Environment()), 0) << out_ << err_;
  const auto report = nlohmann::json::parse(std::ifstream(json_));
  std::map<std::string, std::string> endings;
  for (const auto& part : report["parts"]) {
    endings[part["name"]] = part["ending"];
    for (const auto& check : part["checks"]) EXPECT_TRUE(check["holds"]) << check;
    if (part["ending"] == "cannot run") {
      EXPECT_NE(part["words"].dump().find("the driver runs no kernels"), std::string::npos) << part;
    }
  }
  EXPECT_EQ(endings, (std::map<std::string, std::string>{{"contract", "finished"},
                                                         {"exporter-death", "finished"},
                                                         {"lone-fd", "finished"},
                                                         {"fd-count", "finished"},
                                                         {"hand-over", "cannot run"},
                                                         {"driver-times", "finished"},
                                                         {"load-rate", "finished"},
                                                         {"model-times", "finished"},
                                                         {"give-back", "finished"},
                                                         {"client-death", "cannot run"},
                                                         {"client-death-mps", "cannot run"},
                                                         {"neighbour", "cannot run"},
                                                         {"conformance", "finished"},
                                                         {"writer-death", "cannot run"}}));
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(0));
}

TEST_F(GpuTrialTest, ACheckThatDoesNotHoldIsTold) {
  // The second export: the one that is counted.
  machine_.Fail("cuMemExportToShareableHandle", 999, {.first = 2, .times = 1});
  EXPECT_EQ(Run({"fd-count"}, machine_.Environment()), 1);
  EXPECT_NE(out_.find("cuMemExportToShareableHandle: CUDA_ERROR_UNKNOWN"), std::string::npos)
      << out_;
}

TEST_F(GpuTrialTest, APartThatHangsIsEndedAndTheOthersGoOn) {
  machine_.Hang("cuMemExportToShareableHandle", {.first = 2, .times = 1});
  EXPECT_EQ(Run({"--part-seconds", "5", "fd-count", "conformance"}, machine_.Environment()), 1);
  EXPECT_NE(out_.find("\n1 finished, 1 timed out; "), std::string::npos) << out_;
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(0));
}

TEST_F(GpuTrialTest, WithoutAGpuItSaysSoInOneLine) {
  std::vector<std::string> environment = machine_.Environment();
  environment.back() = "TENURE_EMULATED_GPU=" + (temp_ / "nowhere");
  EXPECT_EQ(Run({}, environment), 77);
  EXPECT_EQ(err_.rfind("no GPU to run on: ", 0), 0U) << err_;
  EXPECT_EQ(err_.find('\n'), err_.size() - 1) << err_;
}

}  // namespace
}  // namespace tenure
