#pragma once

#include <absl/status/statusor.h>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tenure/client.h"

namespace tenure::cli {

// A MemoryMap (map.proto) as the commands use it: states in the ledger's words ("leased"), times as
// they were when it was taken.

using Left = std::optional<std::chrono::nanoseconds>;

struct MapRun {
  uint64_t size = 0;
  uint64_t count = 0;
};

struct MapHolder {
  uint64_t session_id = 0;
  uint64_t leases = 0;
  bool quarantined = false;
};

struct MapRegion {
  std::string model;
  uint64_t revision = 0;
  std::string state;  // "leased"
  std::string layout;
  uint64_t generation = 0;
  uint64_t bytes = 0;
  uint64_t tensor_bytes = 0;
  Left left;  // of its TTL, or else of the last lease
  std::vector<MapHolder> holders;
};

struct MapSegment {
  uint64_t offset = 0;
  std::string state;  // "loading", "leased", "pooled" or "quarantined"
};

struct MapBuffer {
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t requested = 0;
  std::string kind;  // "activation"
  std::chrono::nanoseconds age{};
};

struct MapPool {
  uint64_t pool_id = 0;
  uint64_t session_id = 0;
  bool live = true;
  Left left;
  uint64_t segment_bytes = 0;
  std::vector<MapSegment> segments;  // by offset
  std::vector<MapBuffer> buffers;    // likewise

  // In buffers, and in segments that the session divides itself.
  uint64_t used_bytes() const;
};

struct MapArena {
  client::ArenaLedger ledger;
  std::vector<MapRegion> regions;
  std::vector<MapPool> pools;
  std::vector<MapRun> cached;
};

struct MapCounters {
  uint64_t loads = 0;
  uint64_t copied_bytes = 0;
  uint64_t leases_granted = 0;
  uint64_t buffers_granted = 0;
};

struct MapDevice {
  std::string name;
  std::string backend;
  std::string uuid;
  uint64_t total_bytes = 0;
  uint64_t foreign_bytes = 0;
  std::string lost;
  std::vector<MapArena> arenas;
  MapCounters counters;
};

struct MemoryMap {
  std::string version;
  std::string boot_id;
  std::string time;  // "2026-11-30T20:44:16Z"
  std::chrono::nanoseconds uptime{};
  std::vector<MapDevice> devices;
  std::map<uint64_t, std::string> sessions;  // "program/instance"

  // "program/instance", or words for one that is not known.
  std::string NameOf(uint64_t session_id) const;
};

// What `json` says, which may come from anywhere. INVALID_ARGUMENT if it is no map.
absl::StatusOr<MemoryMap> ReadMap(const std::string& json);

// The map in a file's text: the text itself, an object anywhere in it, or in its last line that has
// one, as JSON again. NOT_FOUND if there is none.
absl::StatusOr<std::string> FindMap(const std::string& text);

}  // namespace tenure::cli
