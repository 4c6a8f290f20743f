// gpu-trial: asks a machine with a GPU what Tenure rests on and what it costs there. Each part runs
// in a process of its own, within a time of its own; one that fails or cannot run says so, and the
// others go on. Ends with 0 if every check holds, 1 if one does not or a part failed, 77 if there
// is no GPU that can be used.
//
//   gpu-trial [--json FILE] [--seconds N] [--part-seconds N] [--mib N] [PART...]

#include <algorithm>
#include <ctime>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <iostream>
#include <stdlib.h>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "tests/gpu/trial/gpu.h"
#include "tests/gpu/trial/part.h"
#include "tests/gpu/trial/part_process.h"
#include "tests/gpu/trial/report.h"
#include "tests/support/temp_dir.h"

namespace tenure::trial {
namespace {

constexpr int kNoGpu = 77;

struct Options {
  std::string json;
  int seconds = 280;
  int part_seconds = 75;
  uint64_t mib = 1024;
  std::vector<std::string> words;  // parts, or what a role is told
  std::string part;                // of this process, if it is one's
  std::string as;                  // its role, if it has one
  int socket = -1;
};

std::string Now() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm utc{};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  return text;
}

// The process of one part.
int RunAlone(const Options& options) {
  const int fd = std::stoi(options.words.at(0));
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  Findings findings(fd);
  const TempDir temp;
  try {
    for (const Part& part : Parts()) {
      if (options.part == part.name) {
        part.run({.findings = findings, .model = MiB(options.mib), .temp = temp.path()});
      }
    }
    return 0;
  } catch (const CannotRun& reason) {
    findings.Say(reason.what());
    return kPartCannotRun;
  } catch (const std::exception& error) {
    findings.Say(error.what());
    return kPartFailed;
  }
}

int RunAs(const Options& options) {
  for (const Role& role : Roles()) {
    if (options.as == role.name) return role.run(options.socket, options.words);
  }
  return kPartFailed;
}

// What there is to ask; its context is gone again when the parts run.
nlohmann::json DescribeMachine(const Options& options) {
  const Gpu gpu;
  const int version = gpu.driver_version();
  return {{"date", Now()},
          {"device", gpu.name()},
          {"driver", std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10)},
          {"memory_mib", gpu.total() / MiB(1)},
          {"model_mib", options.mib}};
}

// Runs the parts one after another.
int RunAll(const Options& options) {
  Report report(DescribeMachine(options));
  const SteadyClock clock;
  const Instant end = After(clock.Now(), std::chrono::seconds(options.seconds));
  const std::filesystem::path parent = std::filesystem::temp_directory_path();
  for (const Part& part : Parts()) {
    if (!options.words.empty() && std::ranges::count(options.words, part.name) == 0) continue;
    const Instant begin = clock.Now();
    if (begin >= end) {
      report.Skip(part, "no time is left for it");
      continue;
    }
    report.Begin(part);
    // What a part that is killed leaves goes with the folder.
    const TempDir temp(parent);
    setenv("TMPDIR", temp.path().c_str(), 1);
    const Ending ending = RunPart(
        {"gpu-trial", "--mib", std::to_string(options.mib), "--part", part.name},
        std::min<Duration>({part.limit, std::chrono::seconds(options.part_seconds), end - begin}),
        [&](const std::string& line) { report.Hear(line); });
    report.End(ending, clock.Now() - begin);
    if (ending == Ending::kInterrupted) break;
  }
  report.PrintTotals();
  if (!options.json.empty()) report.Write(options.json);
  return report.good() ? 0 : 1;
}

int Main(int argc, char** argv) {
  CLI::App app("Asks a machine with a GPU what Tenure rests on and what it costs there.",
               "gpu-trial");
  Options options;
  app.add_option("--json", options.json, "Where to write what was found")->type_name("FILE");
  app.add_option("--seconds", options.seconds, "How long all parts together may take")
      ->check(CLI::Range(1, 3600));
  app.add_option("--part-seconds", options.part_seconds, "How long any one part may take")
      ->check(CLI::Range(1, 3600));
  app.add_option("--mib", options.mib, "Size of each model in MiB")->check(CLI::Range(16, 16384));
  app.add_option("parts", options.words, "Parts to run, by name; none: all");
  app.add_option("--part", options.part)->group("");
  app.add_option("--as", options.as)->group("");
  app.add_option("--socket", options.socket)->group("");
  CLI11_PARSE(app, argc, argv);
  if (!options.part.empty()) return RunAlone(options);
  if (!options.as.empty()) return RunAs(options);
  AdoptOrphans();
  try {
    return RunAll(options);
  } catch (const CannotRun& reason) {
    std::cerr << "no GPU to run on: " << reason.what() << std::endl;
    return kNoGpu;
  }
}

}  // namespace
}  // namespace tenure::trial

int main(int argc, char** argv) {
  try {
    return tenure::trial::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "gpu-trial: " << error.what() << std::endl;
    return 1;
  }
}
