// Holds the emulated driver against what NVIDIA documents.

#include <fstream>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/client/program.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

class ConformanceTest : public testing::Test {
 protected:
  // The program's exit status, with the emulated driver or where `environment` leads it.
  int Run(std::vector<std::string> environment) {
    for (const std::string& variable : environment) {
      const size_t equals = variable.find('=');
      setenv(variable.substr(0, equals).c_str(), variable.substr(equals + 1).c_str(), 1);
    }
    Program program({CONFORMANCE_PATH, "--json", json_}, temp_ / "conformance");
    const int status = program.Wait();
    out_ = program.Out();
    return status;
  }

  TempDir temp_;
  EmulatedGpu machine_{temp_ / "machine"};
  const std::string json_ = temp_ / "rows.json";
  std::string out_;
};

TEST_F(ConformanceTest, TheEmulatedDriverDoesAsDocumentedAndNothingIsLeftBehind) {
  EXPECT_EQ(Run(machine_.Environment()), 0) << out_;
  EXPECT_NE(out_.find(" rows, 0 differ\n"), std::string::npos) << out_;
  EXPECT_EQ(machine_.LiveBytes(0), Bytes(0));
  const auto report = nlohmann::json::parse(std::ifstream(json_));
  EXPECT_EQ(report["driver_version"], 13000);
  EXPECT_GT(report["rows"].size(), 70U);
  for (const auto& row : report["rows"]) EXPECT_TRUE(row["as_documented"]) << row;
}

TEST_F(ConformanceTest, ADriverThatDiffersIsToldApart) {
  machine_.Fail("cuStreamCreate", 999, {.first = 3, .times = 1});
  EXPECT_EQ(Run(machine_.Environment()), 1);
  EXPECT_NE(out_.find("\nDIFFERS  "), std::string::npos) << out_;
  EXPECT_NE(out_.find("got CUDA_ERROR_UNKNOWN"), std::string::npos) << out_;
}

TEST_F(ConformanceTest, EndsOtherwiseWithoutADevice) {
  std::vector<std::string> environment = machine_.Environment();
  environment.back() = "TENURE_EMULATED_GPU=" + (temp_ / "nowhere");
  EXPECT_EQ(Run(environment), 2);
}

}  // namespace
}  // namespace tenure
