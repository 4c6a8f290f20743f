#include <set>
#include <sys/un.h>
#include <utility>

#include "server/config.h"

namespace tenure {
namespace {

constexpr Bytes kGranule = MiB(2);

// What a root or a device may be called.
bool IsName(const std::string& name, std::string_view beside_letters_and_digits) {
  for (const char c : name) {
    const bool alphanumeric =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!alphanumeric && beside_letters_and_digits.find(c) == std::string_view::npos) return false;
  }
  return !name.empty() && name.size() <= 64;
}

bool IsAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size()) return false;
  const std::string port = address.substr(colon + 1);
  return port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos &&
         std::stoul(port) <= 65535;
}

}  // namespace

Status CheckConfig(const Config& config) {
  std::string faults;
  const auto fault = [&faults](const std::string& what) {
    if (!faults.empty()) faults += "\n";
    faults += what;
  };

  constexpr std::string_view kLongestSocket = "/handle.sock";
  if (config.directory.empty() || config.directory[0] != '/') {
    fault("directory: expected an absolute path, not \"" + config.directory + "\"");
  } else if (config.directory.size() + kLongestSocket.size() >= sizeof(sockaddr_un::sun_path)) {
    fault("directory: its sockets' paths would be longer than the system takes: " +
          config.directory);
  }
  if (!config.metrics_address.empty() && !IsAddress(config.metrics_address)) {
    fault("metrics.address: expected host:port or nothing, not \"" + config.metrics_address + "\"");
  }
  if (config.heartbeat_interval >= config.lease_ttl) {
    fault("leases: heartbeat_interval must be shorter than ttl, or every lease expires");
  }
  std::set<std::string> names;
  for (const RootConfig& root : config.model_roots) {
    if (!IsName(root.name, "._-")) {
      fault("model_roots: a name is letters, digits, '.', '_' and '-', not \"" + root.name + "\"");
    }
    if (!names.insert(root.name).second) fault("model_roots: the name comes twice: " + root.name);
  }
  names.clear();
  for (const DeviceConfig& device : config.devices) {
    if (!device.name.starts_with("host:") || !IsName(device.name, ":")) {
      fault("devices: a host device is called host:0 or the like, not \"" + device.name + "\"");
    }
    if (!names.insert(device.name).second) fault("devices: the name comes twice: " + device.name);
  }
  std::set<std::pair<std::string, std::string>> models;
  for (const WantedModel& model : config.models) {
    if (!model.device.empty() && names.count(model.device) == 0 &&
        !(config.devices.empty() && model.device == DeviceConfig().name)) {
      fault("models: there is no device " + model.device + " for " + model.name);
    }
    if (!models.emplace(model.name, model.device).second) {
      fault("models: the name comes twice: " + model.name);
    }
  }
  return faults.empty() ? absl::OkStatus() : Error(Reason::kInvalidRequest, faults);
}

StatusOr<std::vector<DevicePlan>> PlanDevices(const Config& config, Bytes available) {
  std::vector<DeviceConfig> devices = config.devices;
  if (devices.empty()) devices.emplace_back();

  std::vector<DevicePlan> plans;
  for (const DeviceConfig& device : devices) {
    if (!device.total.has_value() && devices.size() > 1) {
      return Error(Reason::kInvalidRequest,
                   "devices: where there are several, each needs a total: " + device.name);
    }
    DevicePlan plan;
    plan.device.name = device.name;
    plan.device.total = device.total.value_or(available);
    plan.device.huge_pages = device.huge_pages;

    const Bytes weights = Resolve(device.weights, plan.device.total);
    if (weights > plan.device.total) {
      return Error(Reason::kInvalidRequest, "devices: the weights are more than the total of " +
                                                device.name + ": " + FormatBytes(weights) + " of " +
                                                FormatBytes(plan.device.total));
    }
    plan.store.capacity_includes_survivors = device.total.has_value();
    plan.store.weights_capacity = AlignDown(weights, kGranule);
    if (plan.store.weights_capacity.zero()) {
      return Error(Reason::kInvalidRequest, "devices: the weights of " + device.name +
                                                " are less than 2 MiB: " + FormatBytes(weights));
    }
    plan.store.segment_size = config.segment_size;
    plan.store.retain_ttl = config.retain_ttl;
    plan.store.cache_ttl = config.cache_ttl;
    plan.store.recall_wait = config.recall_wait;
    plan.store.idle_unload_after = config.idle_unload_after;
    plan.store.default_lease_ttl = config.lease_ttl;
    plan.store.concurrent_loads = config.concurrent_loads;
    plans.push_back(plan);
  }
  return plans;
}

}  // namespace tenure
