#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <tenure/v1/admin.pb.h>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "server/memory_map.h"

namespace tenure {

// Hands memory maps out in parts that fit into a message. A map is taken for its first part, and
// kept for the others until the last was fetched, for kKept at most; of maps that nobody fetches
// on, only the last few are kept. Thread-safe.
class MapParts {
 public:
  static constexpr size_t kMostPart = size_t{1} << 20;
  static constexpr Duration kKept = std::chrono::seconds(30);
  static constexpr size_t kMostMaps = 4;

  // Both outlive it.
  MapParts(const MapMaker& maker, const Clock& clock, size_t part_size = kMostPart);

  // INVALID_REQUEST for a token that was not given here, or of a map that is not kept any more.
  StatusOr<v1::GetMemoryMapResponse> Get(const v1::GetMemoryMapRequest& request);

 private:
  struct Kept {
    uint64_t id = 0;
    std::string bytes;
    Instant until;
  };

  v1::GetMemoryMapResponse Cut(uint64_t id, const std::string& bytes, size_t offset) const;

  const MapMaker& maker_;
  const Clock& clock_;
  const size_t part_size_;
  Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Kept> kept_ ABSL_GUARDED_BY(mutex_);  // the oldest first
};

}  // namespace tenure
