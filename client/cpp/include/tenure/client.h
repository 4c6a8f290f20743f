#pragma once

// The C++ client of Tenure:
//
//   auto client = tenure::Client::Connect({.program = "ranker"});
//   auto lease = client->Acquire({.name = "ranker/v3"});
//   for (const auto& tensor : *lease) Bind(tensor.name, tensor.bytes);
//
// Errors are absl::Status; see errors.h for what they carry.

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/buffer_pool.h"
#include "tenure/call_options.h"
#include "tenure/daemon_status.h"
#include "tenure/errors.h"
#include "tenure/event.h"
#include "tenure/export.h"
#include "tenure/load.h"
#include "tenure/model.h"
#include "tenure/operate.h"
#include "tenure/refusal.h"
#include "tenure/report.h"
#include "tenure/weight_lease.h"

namespace tenure::client {

class Reconnector;

struct ConnectOptions {
  // Where the daemon's two sockets lie. Empty: $TENURE_DIR, or else /run/tenure.
  std::string directory{};
  // Named to operators wherever this client holds something; at most 64 bytes each. Empty: the
  // program's own name, and its process id.
  std::string program{};
  std::string instance{};
  // How long connecting and each call may take unless the call says otherwise.
  std::chrono::nanoseconds timeout = std::chrono::seconds(30);
  // The same for loads and watches.
  std::chrono::nanoseconds load_timeout = std::chrono::minutes(10);
};

struct AcquireRequest {
  // The model's current revision is leased.
  std::string name{};
  // Empty: any device that has it.
  std::string device{};
  // At least 100 ms; unset: as configured.
  std::optional<std::chrono::nanoseconds> ttl{};
};

// One session with the daemon. Heartbeats and events run in a thread of its own, so a caller that
// computes for minutes keeps its leases.
//
// A granting call that ends without a reply is released with the daemon behind the caller's back.
// When the daemon is gone every lease is lost, though what it mapped stays readable until it is
// released; each call then tries to open a session with the daemon that is there, and answers
// UNAVAILABLE if none is. In a child made by fork() every call answers FAILED_PRECONDITION with
// reason FORKED.
//
// Memory is mapped once per region, read-only, and stays mapped for quick return until the daemon
// wants it back. Thread-safe, except for moving and destroying.
class TENURE_CLIENT_API Client {
 public:
  // UNAVAILABLE with reason DAEMON_UNREACHABLE if nothing answers there.
  static absl::StatusOr<Client> Connect(const ConnectOptions& options = {});

  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;
  // Says goodbye, unless leases are left: the last of them does it then.
  ~Client();

  absl::StatusOr<LoadResult> Load(const LoadRequest& request,
                                  const CallOptions& options = {}) const;
  // `revision` 0: the current one. `device` empty: wherever it is, which must be one device.
  absl::StatusOr<UnloadResult> Unload(const std::string& name, uint64_t revision = 0,
                                      const std::string& device = {},
                                      const CallOptions& options = {}) const;
  absl::StatusOr<WeightLease> Acquire(const AcquireRequest& request,
                                      const CallOptions& options = {}) const;

  // Runtime memory. The pool goes on as long as this session: it is lost, and a new one is to be
  // opened, when the daemon says so or is gone. DEVICE_NOT_FOUND; UNSUPPORTED_BACKEND and the like
  // if this process cannot map memory of the device.
  absl::StatusOr<BufferPool> OpenPool(const PoolOptions& pool = {},
                                      const CallOptions& options = {}) const;

  // `revision` 0: the current one, or else the last one there was. `device` empty: any.
  absl::StatusOr<Model> Get(const std::string& name, uint64_t revision = 0,
                            const std::string& device = {}, const CallOptions& options = {}) const;
  // All models of which memory is held, in the order of name, device, revision.
  absl::StatusOr<std::vector<Model>> List(const CallOptions& options = {}) const;
  // In canonical order: names bytewise ascending.
  absl::StatusOr<std::vector<TensorPlace>> ListTensors(const std::string& name,
                                                       uint64_t revision = 0,
                                                       const std::string& device = {},
                                                       const CallOptions& options = {}) const;
  // Calls `on_event` in this thread with the model now and after every change, until it returns
  // false or the model is gone or its load has failed (then OK), or until an error. A name that is
  // not known yet is waited for.
  absl::Status Watch(const std::string& name, const std::string& device,
                     const std::function<bool(const ModelEvent&)>& on_event,
                     const CallOptions& options = {}) const;

  absl::StatusOr<DaemonStatus> Status(const CallOptions& options = {}) const;
  absl::StatusOr<std::vector<Session>> Sessions(const CallOptions& options = {}) const;

  // A refusal of this boot of the daemon, anybody's, by the value `refusal_id` of its error; 0: the
  // last one.
  // NOT_FOUND with reason REFUSAL_NOT_FOUND: the daemon keeps the last 1,000.
  absl::StatusOr<Refusal> ExplainRefusal(uint64_t refusal_id,
                                         const CallOptions& options = {}) const;
  // Whether there is room now, as each device says, or the one named. Takes nothing.
  absl::StatusOr<std::vector<DeviceFit>> Fit(const FitRequest& request,
                                             const CallOptions& options = {}) const;

  // What happened, to anybody.
  absl::StatusOr<EventList> ListEvents(const EventRequest& request,
                                       const CallOptions& options = {}) const;
  // All memory of the daemon at one moment and who holds it, as JSON: a MemoryMap of map.proto,
  // with the names there.
  absl::StatusOr<std::string> MemoryMapJson(const CallOptions& options = {}) const;
  // The same with the last 10,000 events: a FlightRecord of flight_record.proto.
  absl::StatusOr<std::string> FlightRecordJson(const CallOptions& options = {}) const;
  // Every arena's; `reset_peaks`, for operators, lets the peaks count anew afterwards.
  absl::StatusOr<std::vector<ArenaSummary>> Summary(bool reset_peaks = false,
                                                    const CallOptions& options = {}) const;
  // What may have been forgotten.
  absl::StatusOr<LeakReport> Leaks(const CallOptions& options = {}) const;

  // For operators: root, the daemon's own user, and whom its configuration names. Everybody else
  // gets PERMISSION_DENIED.

  // From now on the device takes no new models and pools; false if that was so before.
  // DEVICE_NOT_FOUND.
  absl::StatusOr<bool> Cordon(const std::string& device, const CallOptions& options = {}) const;
  absl::StatusOr<bool> Uncordon(const std::string& device, const CallOptions& options = {}) const;
  // Cordons, takes every model offline, asks clients to let go, and waits for it.
  absl::StatusOr<std::vector<DeviceDrain>> Drain(const DrainRequest& drain,
                                                 const CallOptions& options = {}) const;
  // Gives memory that nobody uses back to the system.
  absl::StatusOr<std::vector<DeviceTrim>> Trim(const TrimRequest& trim,
                                               const CallOptions& options = {}) const;
  // Has the daemon read its configuration anew; what changed. FAILED_PRECONDITION with reason
  // RESTART_NEEDED, or INVALID_ARGUMENT, and then nothing has.
  absl::StatusOr<std::vector<ConfigChange>> Reload(const CallOptions& options = {}) const;

  // Of the last session that was opened.
  uint64_t session_id() const;
  // Of the daemon that the last session was opened with: new at each of its starts.
  std::string boot_id() const;
  // Regions mapped now for that session, in use or cached.
  size_t mapped_region_count() const;

 private:
  Client(const ConnectOptions& options, std::unique_ptr<Reconnector> reconnector);

  std::chrono::nanoseconds timeout_;
  std::chrono::nanoseconds load_timeout_;
  std::unique_ptr<Reconnector> reconnector_;
};

// Whether the daemon in `directory` (as in ConnectOptions) says that it can serve. Needs no
// session.
TENURE_CLIENT_API absl::StatusOr<bool> CheckHealth(const std::string& directory,
                                                   std::chrono::nanoseconds timeout);

// Where the daemon is looked for when nothing is said: $TENURE_DIR, or else /run/tenure.
TENURE_CLIENT_API std::string DefaultDirectory();

// The library's own version: "0.1.0".
TENURE_CLIENT_API std::string_view Version();

}  // namespace tenure::client

namespace tenure {
using client::Client;
using client::ConnectOptions;
using client::ErrorReason;
}  // namespace tenure
