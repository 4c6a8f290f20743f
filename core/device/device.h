#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/segment.h"

namespace tenure {

struct DeviceInfo {
  std::string name;     // "host:0"
  std::string backend;  // "host"
  std::string uuid;     // stays the same over restarts
  Bytes total;          // what the Device could give to all its users together
  Bytes granule;        // every Segment's size is a multiple of it; a power of two
};

// How often the backend was asked, since start. All counters are monotonic:
//   segments alive = segments_created - segments_destroyed, likewise bytes.
//
// Destroyed is what the daemon gave back, whether or not somebody else still pins it.
struct BackendCounters {
  uint64_t segments_created = 0;
  uint64_t segments_destroyed = 0;
  Bytes bytes_created;
  Bytes bytes_destroyed;
  uint64_t exports = 0;
  uint64_t huge_segments_created = 0;  // of segments_created, on huge pages
};

// The memory of one GPU, or of the machine itself. Outlives every Segment it made. Thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // Takes memory from the backend. All of it exists when this returns: nothing that touches it
  // later fails for want of memory. BACKEND if the machine has less than asked for. REQUIRES:
  // `size` is a positive multiple of the granule.
  virtual StatusOr<Segment> CreateSegment(Bytes size) = 0;

  virtual BackendCounters counters() const = 0;

  // Bytes of destroyed Segments that somebody outside still pins, with an fd or a map: no memory is
  // there in their place. Counts a Segment before its destructor returns. Cheap. nullopt where the
  // backend cannot tell.
  virtual std::optional<Bytes> stranded() const { return std::nullopt; }
  // Looks which of them are gone by now. Does not wait.
  virtual void UpdateStranded() {}
};

}  // namespace tenure
