#pragma once

#include <cstdint>
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
};

}  // namespace tenure
