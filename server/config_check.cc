#include <algorithm>
#include <functional>
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

// Told what is wrong with which element of a list, and with which of its values: ".name".
using OnFault = std::function<void(const std::string& what, size_t index, const char* key)>;

void CheckRoots(const Config& config, const OnFault& fault) {
  std::set<std::string> names;
  for (size_t i = 0; i < config.model_roots.size(); ++i) {
    const std::string& name = config.model_roots[i].name;
    if (!IsName(name, "._-")) {
      fault("a name is letters, digits, '.', '_' and '-', not \"" + name + "\"", i, ".name");
    }
    if (!names.insert(name).second) fault("the name comes twice: " + name, i, ".name");
  }
}

void CheckDevices(const Config& config, const OnFault& fault) {
  std::set<std::string> names;
  for (size_t i = 0; i < config.devices.size(); ++i) {
    const DeviceConfig& device = config.devices[i];
    const bool host = device.backend == Backend::kHost;
    if (!device.name.starts_with(host ? "host:" : "gpu:") || !IsName(device.name, ":")) {
      fault(std::string("a device of this backend is called ") + (host ? "host:0" : "gpu:0") +
                " or the like, not \"" + device.name + "\"",
            i, ".name");
    }
    if (host && !device.uuid.empty()) fault("uuid is for GPUs, not for " + device.name, i, ".uuid");
    if (!host && device.huge_pages != HugePages::kOff) {
      fault("huge_pages are for the host's memory, not for " + device.name, i, ".huge_pages");
    }
    if (!names.insert(device.name).second) {
      fault("the name comes twice: " + device.name, i, ".name");
    }
  }
}

void CheckModels(const Config& config, const OnFault& fault) {
  const auto there = [&](const std::string& device) {
    if (config.devices.empty()) return device == DeviceConfig().name || device.starts_with("gpu:");
    return std::any_of(config.devices.begin(), config.devices.end(),
                       [&](const DeviceConfig& each) { return each.name == device; });
  };
  std::set<std::pair<std::string, std::string>> models;
  for (size_t i = 0; i < config.models.size(); ++i) {
    const WantedModel& model = config.models[i];
    if (!model.device.empty() && !there(model.device)) {
      fault("there is no device " + model.device + " for " + model.name, i, ".device");
    }
    if (!models.emplace(model.name, model.device).second) {
      fault("the name comes twice: " + model.name, i, ".name");
    }
  }
}

}  // namespace

Status CheckConfig(const Config& config, const Origins& origins) {
  std::string faults;
  // `at`: the value that is at fault, or its element of a list, where that has no such value.
  const auto fault = [&](const std::string& what, const std::string& at) {
    if (!faults.empty()) faults += "\n";
    auto origin = origins.find(at);
    if (origin == origins.end()) origin = origins.find(at.substr(0, at.find("].") + 1));
    faults += (origin == origins.end() ? "" : origin->second.Place() + ": ") + what;
  };
  const auto element = [](const char* list, size_t index) {
    return list + ("[" + std::to_string(index) + "]");
  };

  constexpr std::string_view kLongestSocket = "/handle.sock";
  if (config.directory.empty() || config.directory[0] != '/') {
    fault("directory: expected an absolute path, not \"" + config.directory + "\"", "directory");
  } else if (config.directory.size() + kLongestSocket.size() >= sizeof(sockaddr_un::sun_path)) {
    fault(
        "directory: its sockets' paths would be longer than the system takes: " + config.directory,
        "directory");
  }
  if (!config.metrics_address.empty() && !IsAddress(config.metrics_address)) {
    fault("metrics.address: expected host:port or nothing, not \"" + config.metrics_address + "\"",
          "metrics.address");
  }
  if (config.heartbeat_interval >= config.lease_ttl) {
    // Whichever was given; of both, the one that is too long.
    const bool only_ttl = !origins.contains("leases.heartbeat_interval");
    fault("leases.heartbeat_interval: must be shorter than leases.ttl, or every lease expires: " +
              WriteDuration(config.heartbeat_interval) + " and " + WriteDuration(config.lease_ttl),
          only_ttl ? "leases.ttl" : "leases.heartbeat_interval");
  }
  CheckRoots(config, [&](const std::string& what, size_t index, const char* key) {
    fault("model_roots: " + what, element("model_roots", index) + key);
  });
  CheckDevices(config, [&](const std::string& what, size_t index, const char* key) {
    fault("devices: " + what, element("devices", index) + key);
  });
  CheckModels(config, [&](const std::string& what, size_t index, const char* key) {
    fault("models: " + what, element("models", index) + key);
  });
  return faults.empty() ? absl::OkStatus() : Error(Reason::kInvalidRequest, faults);
}

}  // namespace tenure
