#pragma once

// What goes into a load and an unload, and what comes out. Plain values; sizes are in bytes.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tenure/export.h"
#include "tenure/model.h"
#include "tenure/weight_lease.h"

namespace tenure::client {

// Memory is kept until the room is needed.
struct RetainForever {};

// How long memory is retained after the last lease ended: as configured, for a time (zero: not at
// all), or for ever.
using Retention = std::variant<std::monostate, std::chrono::nanoseconds, RetainForever>;

// Brings a model online.
struct LoadRequest {
  // Letters, digits, '.', '_', '-' and '/', at most 128, beginning with a letter or digit.
  std::string name{};
  // `ROOT/relative` with the name of a model root, or the absolute path under a root as the daemon
  // sees it: a safetensors file, or a directory with one or with an index and its shards.
  std::string path{};
  // Empty: where the daemon thinks best.
  std::string device{};
  // Never unloaded for want of room.
  bool pin = false;
  Retention retention{};
  // Empty: the library makes one. A caller that sets it may repeat a call that ended without a
  // reply and gets what the first one got; the library does not release that by itself then.
  std::string request_id{};
  // Only checks the files and tells what the model is; takes no memory.
  bool validate_only = false;
  // Returns a lease too.
  bool acquire = false;
  // The lease's time to live, at least 100 ms; unset: as configured.
  std::optional<std::chrono::nanoseconds> lease_ttl{};
};

// How a load got its memory, cheapest first.
enum class Reuse {
  kUnspecified,  // no memory was taken: the model was only validated
  kResident,     // the same content was loaded already
  kRevived,      // a retained region still held the same content
  kAdopted,      // a retained region of the same architecture was taken over in place
  kRecycled,     // at least one segment was there before
  kFresh,        // every segment was created
};

// "resident", "revived", ...
TENURE_CLIENT_API std::string_view ReuseName(Reuse reuse);

// Where a load's time went.
struct LoadPhases {
  std::chrono::nanoseconds open{};
  std::chrono::nanoseconds parse{};
  std::chrono::nanoseconds place{};
  std::chrono::nanoseconds read{};
  std::chrono::nanoseconds copy{};
  std::chrono::nanoseconds publish{};
  std::chrono::nanoseconds total{};
};

// What a load did.
struct LoadResult {
  Model model;
  Reuse reuse = Reuse::kUnspecified;
  uint64_t bytes_copied = 0;
  uint32_t segments_created = 0;
  uint32_t segments_reused = 0;
  LoadPhases phases;
  std::vector<std::string> reclaimed;  // `name@revision` of what was given up for it
  std::optional<WeightLease> lease;    // set if `acquire` was
};

// What an unload did: freed + retained + deferred = the region's bytes.
struct UnloadResult {
  ModelState state = ModelState::kUnspecified;
  uint64_t freed_bytes = 0;
  uint64_t retained_bytes = 0;
  uint64_t deferred_bytes = 0;
  std::vector<Holder> holders;  // of the deferred bytes
};

}  // namespace tenure::client
