// Programs of their own that look at the same device: the contract suite of the CUDA backend, and
// what NVIDIA documents of its driver.

#include <filesystem>
#include <fstream>
#include <stdlib.h>

#include <nlohmann/json.hpp>

#include "tests/client/program.h"
#include "tests/gpu/trial/gpu.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {
namespace {

using nlohmann::json;

constexpr int kNoDevice = 2;
constexpr int kDiffers = 1;

void RequireProgram(const std::string& path) {
  if (!std::filesystem::exists(path)) throw CannotRun("there is no " + path);
}

}  // namespace

void RunContractSuite(const Setting& setting) {
  const std::string suite = Beside("tenure_cuda_device_test");
  RequireProgram(suite);
  const std::string report = setting.temp + "/contract.json";
  setenv("TENURE_REAL_GPU", "1", 1);
  Program program({suite, "--gtest_filter=*DeviceContract*", "--gtest_output=json:" + report},
                  setting.temp + "/contract");
  const int status = program.Wait();
  if (!std::filesystem::exists(report)) {
    throw std::runtime_error("the suite ended early: " + program.Out() + program.Err());
  }
  const json results = json::parse(std::ifstream(report));
  int passed = 0;
  for (const json& suite_results : results["testsuites"]) {
    for (const json& test : suite_results["testsuite"]) {
      const std::string name = test["name"];
      if (test["result"] != "COMPLETED") {
        setting.findings.Say("skipped: " + name);
      } else if (test.contains("failures")) {
        setting.findings.Check(name + ": " + test["failures"][0]["failure"].get<std::string>(),
                               false);
      } else {
        ++passed;
      }
    }
  }
  setting.findings.Figure("tests_passed", passed);
  setting.findings.Check("every test of the contract passes", status == 0 && passed > 0);
}

void RunConformance(const Setting& setting) {
  const std::string conformance = Beside("cuda-conformance");
  RequireProgram(conformance);
  const std::string report = setting.temp + "/conformance.json";
  Program program({conformance, "--json", report}, setting.temp + "/conformance");
  const int status = program.Wait();
  if (status == kNoDevice) throw CannotRun(program.Err());
  if (status != 0 && status != kDiffers) {
    throw std::runtime_error("cuda-conformance ended early: " + program.Out() + program.Err());
  }
  const json rows = json::parse(std::ifstream(report))["rows"];
  for (const json& row : rows) {
    if (row["as_documented"]) continue;
    setting.findings.Check(row["name"].get<std::string>() + ": expected " + row["expected"].dump() +
                               ", got " + row["actual"].dump(),
                           false);
  }
  setting.findings.Figure("rows", static_cast<double>(rows.size()));
  setting.findings.Check("every row is as NVIDIA documents it", status == 0);
}

}  // namespace tenure::trial
