#include <set>
#include <sys/un.h>
#include <utility>

#include "server/config.h"

namespace tenure {
namespace {

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
    const bool host = device.backend == Backend::kHost;
    if (!device.name.starts_with(host ? "host:" : "gpu:") || !IsName(device.name, ":")) {
      fault(std::string("devices: a device of this backend is called ") +
            (host ? "host:0" : "gpu:0") + " or the like, not \"" + device.name + "\"");
    }
    if (host && !device.uuid.empty()) {
      fault("devices: uuid is for GPUs, not for " + device.name);
    }
    if (!host && device.huge_pages != HugePages::kOff) {
      fault("devices: huge_pages are for the host's memory, not for " + device.name);
    }
    if (!names.insert(device.name).second) fault("devices: the name comes twice: " + device.name);
  }
  std::set<std::pair<std::string, std::string>> models;
  for (const WantedModel& model : config.models) {
    if (!model.device.empty() && names.count(model.device) == 0 &&
        !(config.devices.empty() &&
          (model.device == DeviceConfig().name || model.device.starts_with("gpu:")))) {
      fault("models: there is no device " + model.device + " for " + model.name);
    }
    if (!models.emplace(model.name, model.device).second) {
      fault("models: the name comes twice: " + model.name);
    }
  }
  return faults.empty() ? absl::OkStatus() : Error(Reason::kInvalidRequest, faults);
}

}  // namespace tenure
