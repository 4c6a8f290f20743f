#include "tests/e2e/tenured.h"

#include <chrono>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/wait.h>
#include <thread>
#include <utility>

#include "core/base/clock.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

// Guards against a hang; nothing takes that long.
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kPoll = std::chrono::milliseconds(5);

std::string ConfigText(const TenuredSettings& settings, const std::string& directory,
                       const std::string& models) {
  const std::string device = settings.device.empty()
                                 ? TestDeviceEntry(settings.capacity, settings.runtime)
                                 : settings.device;
  std::ostringstream yaml;
  yaml << "directory: " << directory << "\n"
       << "log: {level: " << settings.log_level << "}\n"
       << "metrics: {address: \"127.0.0.1:0\"}\n"
       << "model_roots:\n  - {name: models, path: " << models << "}\n"
       << "devices:\n  - " << device << "\n"
       << "copy_threads: " << settings.copy_threads << "\n"
       << "weights:\n"
       << "  segment_size: " << settings.segment_size << "\n"
       << "  retain_ttl: " << settings.retain_ttl << "\n"
       << "  cache_ttl: " << settings.cache_ttl << "\n"
       << "runtime:\n"
       << "  segment_size: " << settings.runtime_segment_size << "\n"
       << "  pool_ttl: " << settings.pool_ttl << "\n"
       << "  cache_ttl: " << settings.runtime_cache_ttl << "\n"
       << "leases:\n"
       << "  ttl: " << settings.lease_ttl << "\n"
       << "  heartbeat_interval: " << settings.heartbeat_interval << "\n";
  return yaml.str();
}

}  // namespace

Tenured::Tenured(const TenuredSettings& settings)
    : wrapper_(settings.wrapper),
      environment_(settings.environment),
      executable_(settings.executable.empty() ? TENURED_PATH : settings.executable),
      directory_(temp_.MakeDir("run")),
      models_(temp_.MakeDir("models")),
      config_(temp_.WriteFile("tenured.yaml", ConfigText(settings, directory_, models_))) {
  Start();
}

Tenured::~Tenured() = default;

void Tenured::Start() {
  // The directory as a flag too: a TENURE_DIR in the environment overrides the file.
  std::vector<std::string> command;
  if (!environment_.empty()) command.emplace_back("/usr/bin/env");
  command.insert(command.end(), environment_.begin(), environment_.end());
  command.insert(command.end(), wrapper_.begin(), wrapper_.end());
  command.insert(command.end(), {executable_, "--config", config_, "--directory", directory_});
  process_ = std::make_unique<Program>(std::move(command), temp_ / "tenured");
  const auto give_up = SteadyClock().Now() + kPatience;
  while (!client::CheckHealth(directory(), std::chrono::seconds(1)).value_or(false)) {
    if (Ended()) throw std::runtime_error("tenured did not start:\n" + Log());
    if (SteadyClock().Now() > give_up) {
      throw std::runtime_error("tenured did not serve in time:\n" + Log());
    }
    std::this_thread::sleep_for(kPoll);
  }
  const auto status = Connect().Status();
  if (!status.ok()) throw std::runtime_error(status.status().ToString() + "\n" + Log());
  metrics_address_ = status->metrics_address;
}

std::string Tenured::Seen(const std::string& path) const {
  return wrapper_.empty() ? path : "/proc/" + std::to_string(pid()) + "/root" + path;
}

int Tenured::Wait() { return process_->Wait(); }

void Tenured::Kill() {
  kill(pid(), SIGKILL);
  process_->Wait();
}

void Tenured::Pause() {
  kill(pid(), SIGSTOP);
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid()), &stopped, WSTOPPED);
}

void Tenured::Resume() { kill(pid(), SIGCONT); }

Client Tenured::Connect(const std::string& program) const {
  absl::StatusOr<Client> client = Client::Connect({.directory = directory(), .program = program});
  if (!client.ok()) throw std::runtime_error(client.status().ToString() + "\n" + Log());
  return *std::move(client);
}

bool Tenured::Ended() const {
  siginfo_t state{};
  return waitid(P_PID, static_cast<id_t>(pid()), &state, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         state.si_pid != 0;
}

}  // namespace tenure
