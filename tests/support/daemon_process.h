#pragma once

#include <string>
#include <sys/types.h>

#include "tests/support/temp_dir.h"

namespace tenure {

// How a daemon of a test is configured; the rest is left at its defaults.
struct DaemonSettings {
  // Of the device, all of it for weights, with units: "256MiB".
  std::string capacity = "256MiB";
  std::string segment_size = "8MiB";
  std::string retain_ttl = "10m";
  std::string lease_ttl = "30s";
  std::string heartbeat_interval = "5s";
  // Its only device as YAML, instead of the one that tests are run on: "{backend: cuda}".
  std::string device = {};
  // Added at the end of the configuration as it is.
  std::string more_yaml = {};
};

// A `tenured` of its own for one test: its directory, sockets, log and one model root named
// `models` lie in a temporary directory. The daemon ends with this object, and its log goes to
// stderr if a test failed by then. Everything throws std::runtime_error, with the log, if the
// daemon does not do as asked. Thread-compatible.
class DaemonProcess {
 public:
  // Starts it and waits until both sockets take connections.
  explicit DaemonProcess(DaemonSettings settings);
  ~DaemonProcess();
  DaemonProcess(const DaemonProcess&) = delete;
  DaemonProcess& operator=(const DaemonProcess&) = delete;

  // Where the sockets lie.
  const std::string& directory() const { return directory_; }
  // The model root.
  const std::string& models() const { return models_; }
  pid_t pid() const { return pid_; }
  std::string Log() const;

  // SIGKILL, and waits for its end.
  void Kill();
  // SIGTERM, and waits for its end; gives the exit status, or -1 if a signal ended it.
  int Stop();
  // SIGSTOP and SIGCONT.
  void Pause();
  void Resume();
  // Starts it anew in the same directory after Kill or Stop.
  void Start();

 private:
  bool Running();
  void WaitForEnd();

  TempDir temp_;
  const DaemonSettings settings_;
  const std::string directory_;
  const std::string models_;
  const std::string config_;
  const std::string log_;
  pid_t pid_ = -1;  // -1 while it does not run
};

}  // namespace tenure
