// buffers-bench: what runtime memory costs, beside what others take for the same.

#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>

#include "tenure/client.h"
#include "tests/bench/allocator_figures.h"
#include "tests/bench/lease_figures.h"
#include "tests/bench/pool_figures.h"
#include "tests/bench/samples.h"
#include "tests/e2e/tenured.h"

namespace tenure::bench {
namespace {

// A pool of a real daemon, with memory behind it.
class DaemonPool {
 public:
  MeasuredPool Open() const {
    absl::StatusOr<BufferPool> pool = client_.OpenPool();
    if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
    return {.pool = *std::move(pool), .divisor = 16};
  }

 private:
  const Tenured daemon_{{.capacity = "16MiB",
                         .runtime = "2048MiB",
                         .runtime_segment_size = "8MiB",
                         .log_level = "error"}};
  const tenure::Client client_ = daemon_.Connect("buffers-bench");
};

int Run(int rounds, const std::string& json) {
  Report report;
  // First, while the heap that malloc is measured with is its own.
  AddAllocatorFigures(rounds, report);
  AddLeaseFigures(10 * rounds, report);
  const DaemonPool daemon;
  AddPoolFigures(
      rounds, [&] { return daemon.Open(); }, report);
  report.PrintTable();
  if (!json.empty()) report.WriteJson(json);
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  CLI::App app("What runtime memory costs.", "buffers-bench");
  int rounds = 7;
  std::string json;
  app.add_option("--rounds", rounds, "How often everything is measured")->check(CLI::Range(1, 100));
  app.add_option("--json", json, "Where to write the figures")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenure::bench::Run(rounds, json);
  } catch (const std::exception& error) {
    std::cerr << "buffers-bench: " << error.what() << std::endl;
    return 1;
  }
}
