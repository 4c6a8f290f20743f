#include "tests/support/daemon_process.h"

#include <chrono>
#include <errno.h>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <iostream>
#include <signal.h>
#include <sstream>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "core/base/clock.h"
#include "tests/support/test_backend.h"

namespace tenure {
namespace {

// Guards against a hang; nothing takes that long.
constexpr auto kPatience = std::chrono::seconds(30);
constexpr auto kPoll = std::chrono::milliseconds(5);

bool Accepts(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) throw std::runtime_error("path too long: " + path);
  memcpy(address.sun_path, path.c_str(), path.size());
  const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

std::string ConfigText(const DaemonSettings& settings, const std::string& directory,
                       const std::string& models) {
  std::ostringstream yaml;
  yaml << "directory: " << directory << "\n"
       << "log: {level: debug}\n"
       << "metrics: {address: \"\"}\n"
       << "model_roots:\n  - {name: models, path: " << models << "}\n"
       << "devices:\n  - "
       << (settings.device.empty() ? TestDeviceEntry(settings.capacity) : settings.device) << "\n"
       << "weights: {segment_size: " << settings.segment_size
       << ", retain_ttl: " << settings.retain_ttl << "}\n"
       << "leases: {ttl: " << settings.lease_ttl
       << ", heartbeat_interval: " << settings.heartbeat_interval << "}\n"
       << settings.more_yaml;
  return yaml.str();
}

}  // namespace

DaemonProcess::DaemonProcess(DaemonSettings settings)
    : settings_(std::move(settings)),
      directory_(temp_.MakeDir("run")),
      models_(temp_.MakeDir("models")),
      config_(temp_.WriteFile("tenured.yaml", ConfigText(settings_, directory_, models_))),
      log_(temp_ / "tenured.log") {
  Start();
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) Kill();
  if (::testing::Test::HasFailure()) std::cerr << "--- tenured's log:\n" << Log() << "---\n";
}

void DaemonProcess::Start() {
  const int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) throw std::runtime_error("cannot write " + log_);
  // The directory as a flag too: a TENURE_DIR in the environment overrides the file. Made before
  // fork: a child of a process with threads must not allocate.
  const char* const arguments[] = {TENURED_PATH,  "--config",         config_.c_str(),
                                   "--directory", directory_.c_str(), nullptr};
  pid_ = fork();
  if (pid_ == 0) {
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execv(arguments[0], const_cast<char* const*>(arguments));
    _exit(127);
  }
  close(log);
  if (pid_ < 0) throw std::runtime_error("fork failed");
  const auto give_up = SteadyClock().Now() + kPatience;
  while (!Accepts(directory_ + "/handle.sock", SOCK_SEQPACKET) ||
         !Accepts(directory_ + "/grpc.sock", SOCK_STREAM)) {
    if (!Running()) throw std::runtime_error("tenured did not start:\n" + Log());
    if (SteadyClock().Now() > give_up) {
      Kill();
      throw std::runtime_error("tenured did not listen in time:\n" + Log());
    }
    std::this_thread::sleep_for(kPoll);
  }
}

std::string DaemonProcess::Log() const {
  std::ostringstream text;
  text << std::ifstream(log_).rdbuf();
  return text.str();
}

void DaemonProcess::Kill() {
  kill(pid_, SIGKILL);
  WaitForEnd();
}

int DaemonProcess::Stop() {
  kill(pid_, SIGTERM);
  const auto give_up = SteadyClock().Now() + kPatience;
  while (true) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    if (SteadyClock().Now() > give_up) {
      Kill();
      throw std::runtime_error("tenured did not stop in time:\n" + Log());
    }
    std::this_thread::sleep_for(kPoll);
  }
}

void DaemonProcess::Pause() {
  kill(pid_, SIGSTOP);
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED);
}

void DaemonProcess::Resume() { kill(pid_, SIGCONT); }

bool DaemonProcess::Running() {
  int status = 0;
  if (pid_ > 0 && waitpid(pid_, &status, WNOHANG) == pid_) pid_ = -1;
  return pid_ > 0;
}

void DaemonProcess::WaitForEnd() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace tenure
