// tenured: reads the configuration, serves until it is told to stop.

#include <array>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/base/clock.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/device_plan.h"
#include "server/log.h"

namespace tenure {
namespace {

struct Flags {
  std::string config;
  bool check_config = false;
  bool check_device = false;
  std::optional<std::string> directory;
  std::optional<std::string> metrics_address;
  std::vector<std::string> model_roots;  // NAME=PATH
};

std::string VersionText() {
  return std::string("tenured ") + TENURE_VERSION + "\nbackends: host" +
         (HasCudaBackend() ? ", cuda" : "; built without cuda: NVIDIA's cuda.h was not found");
}

void Declare(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", VersionText());
  app.add_option("--config", flags.config, "Configuration, a YAML file")->type_name("FILE");
  app.add_flag("--check-config", flags.check_config, "Only check the configuration");
  app.add_flag("--check-device", flags.check_device,
               "Only tell whether this machine's GPUs can be used");
  app.add_option("--directory", flags.directory, "Where the sockets are; also TENURE_DIR")
      ->type_name("DIR");
  app.add_option("--model-root", flags.model_roots,
                 "A directory of models; may be given several times")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false);
  app.add_option("--metrics-address", flags.metrics_address,
                 "Where /metrics is served; \"\" for nowhere")
      ->type_name("HOST:PORT");
}

// A root of a name that the file has takes its place.
Status AddRoot(Config& config, const std::string& flag) {
  const size_t equals = flag.find('=');
  if (equals == std::string::npos) {
    return Error(Reason::kInvalidRequest, "--model-root: expected NAME=PATH, not \"" + flag + "\"");
  }
  const RootConfig root{flag.substr(0, equals), flag.substr(equals + 1)};
  std::erase_if(config.model_roots, [&](const RootConfig& each) { return each.name == root.name; });
  config.model_roots.push_back(root);
  return absl::OkStatus();
}

// Flags before environment before file before what Config says.
StatusOr<Config> Configure(const Flags& flags) {
  Config config;
  if (!flags.config.empty()) {
    TENURE_ASSIGN_OR_RETURN(config, LoadConfig(flags.config));
  }
  if (const char* directory = std::getenv("TENURE_DIR");
      directory != nullptr && *directory != '\0') {
    config.directory = directory;
  }
  if (flags.directory.has_value()) config.directory = *flags.directory;
  if (flags.metrics_address.has_value()) config.metrics_address = *flags.metrics_address;
  for (const std::string& root : flags.model_roots) TENURE_RETURN_IF_ERROR(AddRoot(config, root));
  TENURE_RETURN_IF_ERROR(CheckConfig(config));
  return config;
}

// What Daemon::Start would refuse, without starting anything.
Status CheckMachine(const Config& config) {
  TENURE_RETURN_IF_ERROR(CanonicalRoots(config).status());
  TENURE_ASSIGN_OR_RETURN(const Machine machine, LookAtMachine(config));
  return PlanDevices(config, machine).status();
}

// One line for each finding; false if one of them is bad.
bool PrintFindings() {
  constexpr std::array<const char*, 3> kVerdicts = {"good", "note", "bad"};
  bool usable = true;
  for (const CudaFinding& finding : CheckCuda()) {
    std::cout << kVerdicts[static_cast<size_t>(finding.verdict)] << '\t' << finding.subject << '\t'
              << finding.answer << '\n';
    usable = usable && finding.verdict != CudaFinding::Verdict::kBad;
  }
  std::cout << std::flush;
  return usable;
}

// Sessions and segments take fds, and gRPC never accepts again once it ran out of them.
void RaiseFdLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) spdlog::warn("cannot raise the limit of open files");
}

int Fail(const Status& status) {
  std::cerr << "tenured: " << status.message() << std::endl;
  return 1;
}

// A driver's call may never return, and whoever waits for it then never does. What clients have
// mapped stays mapped.
void EndBy(Instant latest) {
  std::thread([latest] {
    std::this_thread::sleep_until(latest);
    spdlog::warn("ending without a driver that does not answer");
    spdlog::shutdown();
    std::_Exit(0);
  }).detach();
}

int Run(const Config& config) {
  StartLog(config.log);
  RaiseFdLimit();
  signal(SIGPIPE, SIG_IGN);
  // NVIDIA's driver joins any MPS server that it finds; a directory without one keeps it out.
  setenv("CUDA_MPS_PIPE_DIRECTORY", (config.directory + "/no-mps").c_str(), /*overwrite=*/1);
  sigset_t stops;
  sigemptyset(&stops);
  sigaddset(&stops, SIGTERM);
  sigaddset(&stops, SIGINT);
  // Blocked before any thread exists, so that all inherit it.
  pthread_sigmask(SIG_BLOCK, &stops, nullptr);

  StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(config);
  if (!daemon.ok()) return Fail(daemon.status());
  int received = 0;
  sigwait(&stops, &received);
  spdlog::info("signal received number={}", received);
  EndBy(After(After(SteadyClock().Now(), config.drain_timeout), config.driver_timeout));
  // A second one ends the process as if it had never been blocked.
  pthread_sigmask(SIG_UNBLOCK, &stops, nullptr);
  (*daemon)->Stop(config.drain_timeout);
  if ((*daemon)->HasLostDevice()) {
    spdlog::shutdown();
    std::_Exit(0);
  }
  return 0;
}

}  // namespace
}  // namespace tenure

int main(int argc, char** argv) {
  CLI::App app("Owns the memory in which models are served, and hands it out by lease.", "tenured");
  tenure::Flags flags;
  tenure::Declare(app, flags);
  CLI11_PARSE(app, argc, argv);

  if (flags.check_device) return tenure::PrintFindings() ? 0 : 1;
  const tenure::StatusOr<tenure::Config> config = tenure::Configure(flags);
  if (!config.ok()) return tenure::Fail(config.status());
  if (!flags.check_config) return tenure::Run(*config);
  const tenure::Status machine = tenure::CheckMachine(*config);
  if (!machine.ok()) return tenure::Fail(machine);
  std::cout << "OK" << std::endl;
  return 0;
}
