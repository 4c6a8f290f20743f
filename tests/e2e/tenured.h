#pragma once

#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

#include "tenure/client.h"
#include "tests/client/program.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// The part of a configuration that tests vary; each value as it is written in the file.
struct TenuredSettings {
  // Of the device, for weights and beside it for runtime; in MiB.
  std::string capacity = "256MiB";
  std::string runtime = "0MiB";
  std::string runtime_segment_size = "2MiB";
  std::string pool_ttl = "30s";
  std::string runtime_cache_ttl = "never";
  std::string segment_size = "8MiB";
  std::string retain_ttl = "10m";
  std::string cache_ttl = "never";
  std::string lease_ttl = "30s";
  std::string heartbeat_interval = "5s";
  std::string log_level = "info";
  int copy_threads = 2;
  // The device as the file writes it, "{name: \"gpu:0\", backend: cuda}"; empty: the one that tests
  // are to have, with `capacity`.
  std::string device = {};
  // The daemon; empty: the one that was built.
  std::string executable = {};
  // A program, with arguments, that ends in executing the daemon, whose command line follows. The
  // directory is then looked at as the daemon sees it.
  std::vector<std::string> wrapper = {};
  // NAME=VALUE, added to what the test's own process has.
  std::vector<std::string> environment = {};
};

// A `tenured` process that serves metrics, with a directory, a log and an empty model root of its
// own. Needs no test framework, so that benchmarks run it too. Everything throws
// std::runtime_error, with the log, if the daemon does not do as asked. Thread-compatible.
class Tenured {
 public:
  // Starts it and waits until it serves.
  explicit Tenured(const TenuredSettings& settings = {});
  ~Tenured();
  Tenured(const Tenured&) = delete;
  Tenured& operator=(const Tenured&) = delete;

  // Where the sockets lie.
  std::string directory() const { return Seen(directory_); }
  // The configuration file; a second daemon may be started with it.
  const std::string& config() const { return config_; }
  // The path of `name` in the model root.
  std::string ModelPath(const std::string& name) const { return models_ + "/" + name; }
  // Of the process; REQUIRES: it runs.
  pid_t pid() const { return process_->pid(); }
  // Where /metrics is served.
  const std::string& metrics_address() const { return metrics_address_; }
  std::string Log() const { return process_->Err(); }

  // The daemon's `path`, from here.
  std::string Seen(const std::string& path) const;

  // Waits for its end, which somebody else brings about; its exit status, or -1 if a signal did.
  int Wait();
  // SIGKILL, and waits for its end.
  void Kill();
  // SIGSTOP and SIGCONT.
  void Pause();
  void Resume();
  // Starts it anew in the same directory after Kill.
  void Start();

  Client Connect(const std::string& program = "test") const;

 private:
  bool Ended() const;

  const TempDir temp_;
  const std::vector<std::string> wrapper_;
  const std::vector<std::string> environment_;
  const std::string executable_;
  const std::string directory_;
  const std::string models_;
  const std::string config_;
  std::unique_ptr<Program> process_;
  std::string metrics_address_;
};

}  // namespace tenure
