#pragma once

// What operators do to a daemon, and what it answers. Plain values; sizes are in bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tenure::client {

struct DrainRequest {
  std::string device{};  // empty: every device
  // How long to wait for clients to let go; unset: as the daemon is configured.
  std::optional<std::chrono::nanoseconds> timeout{};
};

// Who still holds memory of a device.
struct DeviceHolder {
  std::string arena;  // "weights" or "runtime"
  uint64_t session_id = 0;
  std::string program;
  std::string instance;
  std::string model;         // "name@revision"; empty in the runtime arena
  uint32_t lease_count = 0;  // live leases; 0 in the runtime arena
  uint64_t bytes = 0;        // of the model, or what the session holds of its pool
  bool quarantined = false;  // holds no lease, and has not answered that it let go
};

// What came of draining one device.
struct DeviceDrain {
  std::string device;
  bool drained = false;  // nothing of it is leased, loading or mapped any more
  uint32_t running_loads = 0;
  std::vector<DeviceHolder> holders;
};

struct TrimRequest {
  std::string device{};   // empty: every device
  bool retained = false;  // what is retained too: a model that comes back then is read again
};

// What one device gave back to the system.
struct DeviceTrim {
  std::string device;
  uint64_t weights_bytes = 0;
  uint64_t runtime_bytes = 0;
};

// A value of the daemon's configuration that changed.
struct ConfigChange {
  std::string key;  // "weights.retain_ttl", or "models.NAME"
  std::string before;
  std::string after;
};

}  // namespace tenure::client
