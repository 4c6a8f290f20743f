#pragma once

// What the daemon says of itself. Plain values; sizes are in bytes.

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tenure/export.h"

namespace tenure::client {

// One arena's ledger at one moment. The equations hold exactly:
//
//   capacity  = leased + loading + idle + retained + quarantined + padding + free + stranded
//   free      = cached + pooled + unbacked
//   allocated = leased + loading + idle + quarantined + padding
struct ArenaLedger {
  std::string arena;  // "weights"
  uint64_t capacity = 0;
  uint64_t leased = 0;
  uint64_t loading = 0;
  uint64_t idle = 0;
  uint64_t retained = 0;
  uint64_t quarantined = 0;
  uint64_t padding = 0;
  uint64_t cached = 0;
  uint64_t pooled = 0;
  uint64_t unbacked = 0;
  // Nobody's, still pinned: mapped since before the daemon's start, or given back by it while
  // somebody has maps or file descriptors of it.
  uint64_t stranded = 0;
  uint64_t lost = 0;  // was capacity before the device was lost
  uint64_t free = 0;
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  uint64_t requested = 0;
  uint64_t largest_free = 0;       // the largest request that would succeed now without reclaim
  double fragmentation_ratio = 0;  // 1 - largest_free / free
};

// What a device's backend was asked for since the daemon started.
struct BackendCounters {
  uint64_t segments_created = 0;
  uint64_t segments_destroyed = 0;
  uint64_t bytes_created = 0;
  uint64_t bytes_destroyed = 0;
  uint64_t exports = 0;  // fds given out
};

struct Device {
  std::string name;     // "host:0", "gpu:0"
  std::string backend;  // "host" or "cuda"
  std::string uuid;
  uint64_t total_bytes = 0;
  uint64_t granule_bytes = 0;
  std::vector<ArenaLedger> arenas;
  BackendCounters backend_counters;
  uint64_t foreign_bytes = 0;  // of the total, used by others, as the driver says; 0 on the host
  std::string lost;            // why it does not serve any more; empty while it does
  bool cordoned = false;       // it takes no new models and pools, on an operator's word
};

// A directory under which models lie.
struct ModelRoot {
  std::string name;
  std::string path;
};

// A model that the daemon is to bring online by itself and has not yet.
struct PendingModel {
  std::string name;
  std::string path;
  std::string device;  // empty: any
  bool loading = false;
  std::string reason;   // of the last try, as in errors.h; empty before the first
  std::string message;  // the same for people
};

// How far the daemon is with the models that it brings online after its start.
struct Readiness {
  bool ready = false;  // nothing is pending but what the daemon can do nothing about
  uint32_t wanted = 0;
  std::vector<PendingModel> pending;
};

struct DaemonStatus {
  std::string version;
  std::string boot_id;  // new at every start
  std::chrono::nanoseconds uptime{};
  std::vector<Device> devices;
  std::string metrics_address;  // empty: not served
  std::vector<ModelRoot> model_roots;
  Readiness readiness;
};

enum class SessionState {
  kUnspecified,  // told by a newer daemon
  kLive,
  kDeaf,  // broke the protocol
  kGone,  // hung up, but its process has not ended
};

// "live", "deaf", "gone".
TENURE_CLIENT_API std::string_view SessionStateName(SessionState state);

// One client of the daemon.
struct Session {
  uint64_t session_id = 0;
  std::string program;
  std::string instance;
  uint32_t uid = 0;
  uint32_t gid = 0;
  int32_t pid = 0;  // 0 if the daemon cannot see it
  SessionState state = SessionState::kUnspecified;
  uint32_t lease_count = 0;
  uint32_t share_count = 0;
  uint32_t quarantined_share_count = 0;
  std::chrono::nanoseconds silent_for{};  // since its last heartbeat
};

}  // namespace tenure::client
