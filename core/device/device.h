#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/segment.h"
#include "core/device/segment_writer.h"

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

  // Takes memory from the backend, one Segment of each size, in this order; all of them or none.
  // The memory exists and is zero when this returns: nothing that touches it later fails for want
  // of memory. BACKEND if the machine has less than asked for. REQUIRES: each size is a positive
  // multiple of the granule.
  virtual StatusOr<std::vector<Segment>> CreateSegments(SegmentUse use,
                                                        std::span<const Bytes> sizes) = 0;
  // One.
  StatusOr<Segment> CreateSegment(SegmentUse use, Bytes size) {
    TENURE_ASSIGN_OR_RETURN(std::vector<Segment> segments, CreateSegments(use, {&size, 1}));
    return std::move(segments.front());
  }

  // A way to bring bytes into this Device's Segments. May wait until another writer is gone.
  virtual StatusOr<std::unique_ptr<SegmentWriter>> OpenWriter() = 0;

  virtual BackendCounters counters() const = 0;

  // Of the total, what others use, as the backend last said; zero where it does not tell.
  virtual Bytes foreign() const = 0;

  // Bytes of destroyed Segments of one use that somebody outside still pins, with an fd or a map:
  // no memory is there in their place. Counts a Segment before its destructor returns. Cheap.
  // nullopt where the backend cannot tell.
  virtual std::optional<Bytes> stranded(SegmentUse use) const = 0;

  // Looks anew whether the Device serves, and which of the stranded bytes are gone by now. OK while
  // it serves; DEVICE_LOST, with the cause, once it does not and never will: what was in its memory
  // is gone. Does not wait for the Device.
  virtual Status Look() = 0;
};

}  // namespace tenure
