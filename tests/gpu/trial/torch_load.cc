#include "tests/gpu/trial/torch_load.h"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/client/program.h"

namespace tenure::trial {
namespace {

constexpr int kNotThere = 77;

// python3 as it is outside this trial, without the libraries that travel with it.
std::vector<std::string> Command(const std::string& path, int rounds) {
  const char* const libraries = std::getenv("TENURE_SYSTEM_LIBRARY_PATH");
  std::vector<std::string> command = {"/usr/bin/env"};
  if (libraries != nullptr) command.push_back(std::string("LD_LIBRARY_PATH=") + libraries);
  for (const std::string& word :
       {std::string("python3"), Beside("torch_load.py"), path, std::to_string(rounds)}) {
    command.push_back(word);
  }
  return command;
}

}  // namespace

void MeasureTorch(const std::string& path, int rounds, const Setting& setting) {
  Program python(Command(path, rounds), setting.temp + "/torch");
  const int status = python.Wait();
  if (status == kNotThere || status == 127) {
    setting.findings.Say("no PyTorch beside it: " + python.Err());
    return;
  }
  if (status != 0) throw std::runtime_error("torch_load.py: " + python.Err());
  const nlohmann::json figures = nlohmann::json::parse(python.Out());
  for (const auto& [key, milliseconds] : figures.items()) {
    bench::Samples samples;
    for (const double value : milliseconds) samples.Add(value);
    setting.findings.Figure(key, samples);
  }
}

}  // namespace tenure::trial
