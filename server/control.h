#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/store/load.h"
#include "core/store/store.h"
#include "server/config_changes.h"
#include "server/session_registry.h"

namespace tenure {

// What operators do to a running daemon. Who may call is checked before. An empty name of a device
// means every one; DEVICE_NOT_FOUND for one that is not there. Thread-safe.
class Control {
 public:
  // Asks a Session to let go of what it can spare on a device, within a time.
  using AskToRelease =
      std::function<void(SessionId session, const std::string& device, Duration within)>;
  // Reads the configuration anew; what changed, or why nothing did.
  using Reread = std::function<StatusOr<std::vector<ConfigChange>>()>;

  // All references outlive the control.
  Control(Store& store, const SessionRegistry& sessions, const Clock& clock, Duration drain_timeout,
          AskToRelease ask_to_release, Reread reread);

  // False if the device was in that state before. INVALID_REQUEST for an empty name.
  StatusOr<bool> SetCordoned(const std::string& device, bool cordoned);

  struct Holder {
    const char* arena;  // "weights" or "runtime"
    SessionId session;
    std::string program;
    std::string instance;
    std::string model;    // "name@revision"; empty in the runtime arena
    uint32_t leases = 0;  // 0 in the runtime arena
    Bytes bytes;          // of the model, or of the Session's Pool
    bool quarantined = false;
  };
  struct Drained {
    std::string device;
    bool drained = false;
    uint64_t running_loads = 0;
    std::vector<Holder> holders;
  };
  // Cordons the device, takes all its models offline, asks Sessions to let go, and waits until
  // nothing of it is leased, loading or mapped, for `timeout` and within `limits`. CANCELLED.
  StatusOr<std::vector<Drained>> Drain(const std::string& device, Duration timeout,
                                       const CallLimits& limits);

  struct Trimmed {
    std::string device;
    Bytes weights;
    Bytes runtime;
  };
  // Gives cached Segments back to the backend, and with `retained` those of models that are only
  // kept for their TTL.
  StatusOr<std::vector<Trimmed>> Trim(const std::string& device, bool retained,
                                      const CallLimits& limits);

  StatusOr<std::vector<ConfigChange>> Reload() { return reread_(); }

  // What a drain takes at most that does not say otherwise.
  Duration drain_timeout() const { return drain_timeout_.load(); }
  void SetDrainTimeout(Duration timeout) { drain_timeout_.store(timeout); }

 private:
  // Both stores of a device.
  struct Stores {
    DeviceStore* weights;
    RuntimeStore* runtime;

    const std::string& name() const { return weights->device_info().name; }
  };

  StatusOr<std::vector<Stores>> Named(const std::string& device) const;
  void Ask(const Stores& stores, Duration within) const;
  static bool Empty(const Stores& stores);
  static Drained ResultOf(const Stores& stores);

  Store& store_;
  const SessionRegistry& sessions_;
  const Clock& clock_;
  const AskToRelease ask_to_release_;
  const Reread reread_;
  std::atomic<Duration> drain_timeout_;
};

}  // namespace tenure
