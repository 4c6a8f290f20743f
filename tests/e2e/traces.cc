#include "tests/e2e/traces.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

#include "tests/e2e/scrape.h"

namespace tenure {
namespace {

// The number behind `key` in the process's status file.
size_t StatusOf(const std::string& proc, const std::string& key) {
  std::ifstream file(proc + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoul(line.substr(key.size() + 1));
  }
  throw std::runtime_error("no " + key + " in " + proc);
}

size_t LinesOf(const std::string& path) {
  std::ifstream file(path);
  size_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

std::string ProcOf(pid_t pid) { return "/proc/" + std::to_string(pid); }

}  // namespace

size_t FdsOf(pid_t pid) {
  const std::filesystem::directory_iterator fds(ProcOf(pid) + "/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

Traces Traces::Of(const Tenured& daemon) {
  const std::string proc = ProcOf(daemon.pid());
  const Scrape scrape = Scrape::Of(daemon.metrics_address());
  Traces traces;
  traces.reserved = scrape.Value("tenure_arena_reserved_bytes");
  traces.allocated = scrape.Value("tenure_arena_allocated_bytes");
  traces.series = scrape.series_count();
  traces.fds = FdsOf(daemon.pid());
  traces.threads = StatusOf(proc, "Threads");
  traces.maps = LinesOf(proc + "/maps");
  traces.private_kib = StatusOf(proc, "RssAnon");
  return traces;
}

double Slope(const std::vector<Traces>& all, size_t Traces::*member) {
  const size_t third = all.size() / 3;
  const auto median = [&](size_t begin) {
    std::vector<size_t> values;
    for (size_t i = begin; i < begin + third; ++i) values.push_back(all[i].*member);
    std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(third / 2));
    return static_cast<double>(values[third / 2]);
  };
  return (median(all.size() - third) - median(0)) / static_cast<double>(all.size() - third);
}

}  // namespace tenure
