#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/host_device.h"
#include "server/quantity.h"
#include "server/wanted_model.h"

namespace tenure {

enum class LogFormat { kText, kJson };

// What every size of memory is a multiple of.
inline constexpr Bytes kGranule = MiB(2);

struct LogConfig {
  std::string level = "info";  // trace, debug, info, warn, error
  LogFormat format = LogFormat::kText;
};

struct RootConfig {
  std::string name;
  std::string path;
};

// Who may connect to the sockets: whoever their mode lets.
struct SocketConfig {
  mode_t mode = 0660;
  std::string group;  // a name or a number; empty: that of the daemon
};

// Who may do what is the operators' to do, beside root and the daemon's own user.
struct AdminConfig {
  std::vector<uint32_t> uids;
  std::vector<uint32_t> gids;
  bool unload = false;  // to unload a model needs the right, too
};

// See FlightRecorder.
struct FlightRecorderConfig {
  std::string directory;  // empty: `flight` beside the sockets
  int kept = 5;           // 0: nothing is written
};

enum class Backend { kHost, kCuda };

struct DeviceConfig {
  std::string name = "host:0";
  Backend backend = Backend::kHost;
  std::string uuid;  // of a GPU, or how it begins; empty: any that nobody else has
  // Of what the machine has available at start, or the GPU has; nullopt: all.
  std::optional<Amount> total;
  Amount weights = Percent{70};   // of the total, as is runtime
  std::optional<Amount> runtime;  // nullopt: 20%, or what the weights leave of it
  HugePages huge_pages = HugePages::kOff;
  std::string place;  // where it stands, for errors: "tenured.yaml:12"; empty if nowhere
};

// Of the runtime arena of every Device.
struct RuntimeConfig {
  Bytes segment_size = MiB(8);
  Duration pool_ttl = std::chrono::seconds(30);
  Duration cache_ttl = kForever;
  Duration recall_wait = std::chrono::milliseconds(200);
};

// See Planner.
struct PlannerConfig {
  Duration budget = std::chrono::milliseconds(100);  // the most for one plan
  Bytes cache = MiB(64);                             // of plans
  int threads = 1;                                   // plans made at a time
};

// Everything the daemon is told: configs/tenured.example.yaml describes each key, and
// server/config_keys.cc lists them. A value that was not given is what stands here.
struct Config {
  std::string directory = "/run/tenure";
  LogConfig log;
  SocketConfig socket;
  AdminConfig admin;
  std::string metrics_address = "127.0.0.1:9400";  // empty: off
  bool metrics_model_bytes = false;                // a series for each of the largest models
  FlightRecorderConfig flight_recorder;
  std::vector<RootConfig> model_roots;
  std::vector<DeviceConfig> devices;  // empty: every GPU, or one `host:0` where there is none
  std::vector<WantedModel> models;    // brought online at start

  RuntimeConfig runtime;
  PlannerConfig planner;

  Bytes segment_size = MiB(64);
  bool single_segment = false;
  Duration retain_ttl = std::chrono::minutes(10);
  Duration cache_ttl = kForever;
  Duration recall_wait = std::chrono::milliseconds(200);
  Duration idle_unload_after = kForever;
  int concurrent_loads = 2;
  Duration driver_timeout = std::chrono::seconds(60);

  Duration lease_ttl = std::chrono::seconds(30);
  Duration heartbeat_interval = std::chrono::seconds(5);
  Duration death_grace = std::chrono::seconds(2);
  Duration drain_timeout = std::chrono::seconds(30);
  int copy_threads = 2;
  int max_watchers = 32;
};

// Where a value comes from.
struct Origin {
  enum class Kind { kDefault, kFile, kEnvironment, kFlag };
  Kind kind = Kind::kDefault;
  std::string name;  // of the file, the variable or the flag
  int line = 0;      // in the file, from 1

  // "file tenured.yaml:12", "environment TENURED_LOG_LEVEL", "flag --set", "default".
  std::string Describe() const;
  // How a complaint begins: as Describe, but a file is "tenured.yaml:12".
  std::string Place() const;
};
// By key, "weights.retain_ttl" or "devices[0].weights", and by list, "devices[0]". What is at its
// default is not there.
using Origins = std::map<std::string, Origin>;

struct LoadedConfig {
  Config config;
  Origins origins;
};

// Reads YAML. INVALID_REQUEST, one line `file:line: key: what is wrong` for each fault: a key that
// is not known or comes twice, a value of the wrong kind or out of its bounds.
StatusOr<LoadedConfig> ParseConfig(const std::string& text, const std::string& file);

// Reads a document that holds nothing but `models`, as in the configuration. Errors as in
// ParseConfig.
StatusOr<std::vector<WantedModel>> ParseModels(const std::string& text, const std::string& file);

// As ParseConfig, of a file that must be there.
StatusOr<LoadedConfig> LoadConfig(const std::string& file);

// Faults that only show when all is known: heartbeats rarer than leases expire, names that are
// taken twice, sockets whose path is too long. INVALID_REQUEST, one line for each, which begins
// with where the value stands.
Status CheckConfig(const Config& config, const Origins& origins = {});

}  // namespace tenure
