#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/host_device.h"
#include "core/store/device_store.h"
#include "server/quantity.h"
#include "server/wanted_model.h"

namespace tenure {

enum class LogFormat { kText, kJson };

struct LogConfig {
  std::string level = "info";  // trace, debug, info, warn, error
  LogFormat format = LogFormat::kText;
};

struct RootConfig {
  std::string name;
  std::string path;
};

struct DeviceConfig {
  std::string name = "host:0";
  std::optional<Bytes> total;  // nullopt: what the machine has available at start
  SizeOrPercent weights = Percent{70};
  HugePages huge_pages = HugePages::kOff;
};

// Everything the daemon is told: configs/quickstart.yaml describes each key. A value that was not
// given is what stands here.
struct Config {
  std::string directory = "/run/tenure";
  LogConfig log;
  std::string metrics_address = "127.0.0.1:9400";  // empty: off
  std::vector<RootConfig> model_roots;
  std::vector<DeviceConfig> devices;  // empty: one `host:0`
  std::vector<WantedModel> models;    // brought online at start

  Bytes segment_size = MiB(64);
  Duration retain_ttl = std::chrono::minutes(10);
  Duration cache_ttl = kForever;
  Duration recall_wait = std::chrono::milliseconds(200);
  Duration idle_unload_after = kForever;
  int concurrent_loads = 2;

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

// A Device as it will be made.
struct DevicePlan {
  HostDeviceOptions device;
  DeviceStoreOptions store;
};

// Turns shares into bytes, given what the machine has available. INVALID_REQUEST if a Device is to
// hold more weights than it has, or several Devices leave their total open.
StatusOr<std::vector<DevicePlan>> PlanDevices(const Config& config, Bytes available);

}  // namespace tenure
