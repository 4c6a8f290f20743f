// buffers-bench: what runtime memory costs, beside what others take for the same.

#include <exception>
#include <iostream>
#include <string>

#include <CLI/CLI.hpp>

#include "tests/bench/allocator_figures.h"
#include "tests/bench/pool_figures.h"
#include "tests/bench/samples.h"

namespace tenure::bench {
namespace {

int Run(int rounds, bool pool_only, const std::string& json) {
  Report report;
  AddPoolFigures(rounds, PoolWithoutMemory, report);
  if (!pool_only) AddAllocatorFigures(rounds, report);
  report.PrintTable();
  if (!json.empty()) report.WriteJson(json);
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  CLI::App app("What runtime memory costs.", "buffers-bench");
  int rounds = 7;
  bool pool_only = false;
  std::string json;
  app.add_option("--rounds", rounds, "How often everything is measured")->check(CLI::Range(1, 100));
  app.add_flag("--pool-only", pool_only, "Leaves out the allocator and its baselines");
  app.add_option("--json", json, "Where to write the figures")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenure::bench::Run(rounds, pool_only, json);
  } catch (const std::exception& error) {
    std::cerr << "buffers-bench: " << error.what() << std::endl;
    return 1;
  }
}
