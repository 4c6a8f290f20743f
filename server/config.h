#pragma once

#include <optional>
#include <string>
#include <string_view>
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

enum class Backend { kHost, kCuda };

struct DeviceConfig {
  std::string name = "host:0";
  Backend backend = Backend::kHost;
  std::string uuid;            // of a GPU, or how it begins; empty: any that nobody else has
  std::optional<Bytes> total;  // nullopt: what the machine has available at start, or the GPU has
  SizeOrPercent weights = Percent{70};
  std::optional<SizeOrPercent> runtime;  // nullopt: 20%, or what the weights leave of it
  HugePages huge_pages = HugePages::kOff;
};

// Of the runtime arena of every Device.
struct RuntimeConfig {
  Bytes segment_size = MiB(8);
  Duration pool_ttl = std::chrono::seconds(30);
  Duration cache_ttl = kForever;
  Duration recall_wait = std::chrono::milliseconds(200);
};

// Everything the daemon is told: configs/quickstart.yaml describes each key. A value that was not
// given is what stands here.
struct Config {
  std::string directory = "/run/tenure";
  LogConfig log;
  std::string metrics_address = "127.0.0.1:9400";  // empty: off
  std::vector<RootConfig> model_roots;
  std::vector<DeviceConfig> devices;  // empty: every GPU, or one `host:0` where there is none
  std::vector<WantedModel> models;    // brought online at start

  RuntimeConfig runtime;

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

// Reads YAML. INVALID_REQUEST, one line `file:line: key: what is wrong` for each fault: a key that
// is not known or comes twice, a value of the wrong kind or out of its bounds.
StatusOr<Config> ParseConfig(const std::string& text, const std::string& file);

// Reads a document that holds nothing but `models`, as in the configuration. Errors as in
// ParseConfig.
StatusOr<std::vector<WantedModel>> ParseModels(const std::string& text, const std::string& file);

// As ParseConfig, of a file that must be there.
StatusOr<Config> LoadConfig(const std::string& file);

// Faults that only show when all is known: heartbeats rarer than leases expire, names that are
// taken twice, sockets whose path is too long. INVALID_REQUEST, one line for each.
Status CheckConfig(const Config& config);

}  // namespace tenure
