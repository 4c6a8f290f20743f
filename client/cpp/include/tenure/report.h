#pragma once

// What the daemon says when it is asked how memory is used, and by whom for long. Plain values;
// sizes are in bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tenure/daemon_status.h"

namespace tenure::client {

struct SegmentsOfSize {
  uint64_t size = 0;    // of each
  uint64_t used = 0;    // in regions and pools
  uint64_t cached = 0;  // nobody's
};

// What one arena has come to since the daemon's start.
struct ArenaSummary {
  std::string device;
  ArenaLedger ledger;           // now
  uint64_t peak_reserved = 0;   // the most since start, or since the peaks were reset
  uint64_t peak_allocated = 0;  // likewise
  uint64_t requests = 0;        // loads; requests for buffers and segments
  uint64_t failed = 0;          // of those
  uint64_t reclaims = 0;        // how often memory was taken back to make room
  std::vector<SegmentsOfSize> segments;
};

// A lease or buffer that has been held far longer than its kind usually is.
struct Leak {
  std::string device;
  std::string arena;
  std::string kind;     // "lease"; of a buffer "activation", "workspace" or "io"
  std::string subject;  // `name@revision` of the model, or the id of the buffer
  uint64_t session_id = 0;
  std::string program;
  std::string instance;
  uint64_t bytes = 0;
  std::chrono::nanoseconds held{};
  std::optional<std::chrono::nanoseconds> usual;  // of 99 in 100; unset if too few were released
};

// Memory of an arena that nobody uses and nobody gets.
struct StrandedMemory {
  std::string device;
  std::string arena;
  uint64_t stranded = 0;     // given back, and still pinned by somebody
  uint64_t quarantined = 0;  // readable by a session that has not answered for it
};

struct LeakReport {
  std::vector<Leak> leaks;
  std::vector<StrandedMemory> stranded;
};

}  // namespace tenure::client
