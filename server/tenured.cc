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
#include "server/config_print.h"
#include "server/config_sources.h"
#include "server/daemon.h"
#include "server/device_plan.h"
#include "server/log.h"
#include "server/service_notify.h"

namespace tenure {
namespace {

struct Flags {
  std::string config;
  bool check_config = false;
  bool print_config = false;
  bool check_device = false;
  std::optional<std::string> directory;
  std::optional<std::string> metrics_address;
  std::vector<std::string> settings;     // KEY=VALUE
  std::vector<std::string> model_roots;  // NAME=PATH
};

std::string VersionText() {
  return std::string("tenured ") + TENURE_VERSION + "\nbackends: host" +
         (HasCudaBackend() ? ", cuda" : "; built without cuda: NVIDIA's cuda.h was not found");
}

void Declare(CLI::App& app, Flags& flags) {
  app.set_version_flag("--version", VersionText());
  app.add_option("--config", flags.config, "Configuration, a YAML file")->type_name("FILE");
  app.add_flag("--check-config", flags.check_config,
               "Only check the configuration, against this machine too");
  app.add_flag("--print-config", flags.print_config,
               "Only print the whole configuration, and where each value comes from");
  app.add_flag("--check-device", flags.check_device,
               "Only tell whether this machine's GPUs can be used");
  app.add_option("--set", flags.settings,
                 "Any single value of the configuration, such as weights.retain_ttl=5m; may be "
                 "given several times. Also TENURED_WEIGHTS_RETAIN_TTL and so on")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  app.add_option("--directory", flags.directory,
                 "Where the sockets are; also TENURED_DIRECTORY and TENURE_DIR")
      ->type_name("DIR");
  app.add_option("--model-root", flags.model_roots,
                 "A directory of models; may be given several times")
      ->type_name("NAME=PATH")
      ->allow_extra_args(false);
  app.add_option("--metrics-address", flags.metrics_address,
                 "Where HTTP is served: /metrics, /readyz, the memory map; \"\" for nowhere")
      ->type_name("HOST:PORT");
}

StatusOr<ConfigSources> SourcesOf(const Flags& flags) {
  ConfigSources sources{
      .file = flags.config, .environment = ReadEnvironment(), .model_roots = flags.model_roots};
  for (const std::string& text : flags.settings) {
    TENURE_ASSIGN_OR_RETURN(ConfigSources::Flag flag, ParseSetFlag(text));
    sources.flags.push_back(std::move(flag));
  }
  if (flags.directory.has_value()) {
    sources.flags.push_back({"--directory", "directory", *flags.directory});
  }
  if (flags.metrics_address.has_value()) {
    sources.flags.push_back({"--metrics-address", "metrics.address", *flags.metrics_address});
  }
  return sources;
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

int Run(const Config& config, const ConfigSources& sources) {
  ServiceNotify notify = ServiceNotify::FromEnvironment();
  StartLog(config.log);
  RaiseFdLimit();
  signal(SIGPIPE, SIG_IGN);
  // NVIDIA's driver joins any MPS server that it finds; a directory without one keeps it out.
  setenv("CUDA_MPS_PIPE_DIRECTORY", (config.directory + "/no-mps").c_str(), /*overwrite=*/1);
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, each);
  // Blocked before any thread exists, so that all inherit it.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  StatusOr<std::unique_ptr<Daemon>> daemon = Daemon::Start(config, sources, std::move(notify));
  if (!daemon.ok()) return Fail(daemon.status());
  int received = 0;
  for (sigwait(&signals, &received); received == SIGHUP; sigwait(&signals, &received)) {
    spdlog::info("signal received number={}", received);
    // The log and the metrics tell what came of it.
    (*daemon)->Reload().status().IgnoreError();
  }
  spdlog::info("signal received number={}", received);
  const Duration drain_timeout = (*daemon)->drain_timeout();
  EndBy(After(After(SteadyClock().Now(), drain_timeout), config.driver_timeout));
  // A second one ends the process as if it had never been blocked.
  sigdelset(&signals, SIGHUP);
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  (*daemon)->Stop(drain_timeout);
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
  const tenure::StatusOr<tenure::ConfigSources> sources = tenure::SourcesOf(flags);
  if (!sources.ok()) return tenure::Fail(sources.status());
  const tenure::StatusOr<tenure::LoadedConfig> loaded = tenure::Gather(*sources);
  if (!loaded.ok()) return tenure::Fail(loaded.status());
  if (flags.check_config) {
    const tenure::Status machine = tenure::CheckMachine(loaded->config);
    if (!machine.ok()) return tenure::Fail(machine);
    if (!flags.print_config) std::cout << "OK" << std::endl;
  }
  if (flags.print_config) std::cout << tenure::PrintConfig(*loaded) << std::flush;
  return flags.check_config || flags.print_config ? 0 : tenure::Run(loaded->config, *sources);
}
