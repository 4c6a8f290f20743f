#include "server/process_metrics.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace tenure {
namespace {

using prometheus::MetricType;

void AddOne(MetricFamilies& out, const char* name, const char* help, MetricType type,
            double value) {
  FamilyBuilder family(name, help, type);
  family.Add({}, value);
  family.MoveTo(out);
}

std::string ReadText(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Of /proc/self/stat, as proc(5) numbers them.
struct Stat {
  double cpu_ticks = 0;       // 14 and 15
  double threads = 0;         // 20
  double started_ticks = 0;   // 22, since the machine's start
  double resident_pages = 0;  // 24
};

Stat ReadStat() {
  const std::string text = ReadText("/proc/self/stat");
  // The second field is a name that may hold anything, in parentheses.
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  Stat stat;
  std::string field;
  for (int number = 3; rest >> field; ++number) {
    if (number == 14 || number == 15) stat.cpu_ticks += std::stod(field);
    if (number == 20) stat.threads = std::stod(field);
    if (number == 22) stat.started_ticks = std::stod(field);
    if (number == 24) stat.resident_pages = std::stod(field);
  }
  return stat;
}

// In seconds since 1970.
double BootTime() {
  std::istringstream lines(ReadText("/proc/stat"));
  std::string line;
  while (std::getline(lines, line)) {
    if (line.starts_with("btime ")) return std::stod(line.substr(6));
  }
  return 0;
}

double OpenFds() {
  std::error_code error;
  std::filesystem::directory_iterator fds("/proc/self/fd", error);
  // Without the one that reads them.
  return error ? 0 : static_cast<double>(std::distance(begin(fds), end(fds)) - 1);
}

}  // namespace

void AddProcess(MetricFamilies& out) {
  const Stat stat = ReadStat();
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  rlimit fds{};
  getrlimit(RLIMIT_NOFILE, &fds);
  AddOne(out, "process_start_time_seconds", "When the process started, in seconds since 1970.",
         MetricType::Gauge, BootTime() + stat.started_ticks / ticks);
  AddOne(out, "process_cpu_seconds_total", "User and system time spent.", MetricType::Counter,
         stat.cpu_ticks / ticks);
  AddOne(out, "process_resident_memory_bytes",
         "Resident memory; on the host backend the segments are among it.", MetricType::Gauge,
         stat.resident_pages * static_cast<double>(sysconf(_SC_PAGESIZE)));
  AddOne(out, "process_open_fds", "Open file descriptors.", MetricType::Gauge, OpenFds());
  AddOne(out, "process_max_fds", "Most file descriptors that may be open.", MetricType::Gauge,
         static_cast<double>(fds.rlim_cur));
  AddOne(out, "process_threads", "Threads.", MetricType::Gauge, stat.threads);
}

}  // namespace tenure
