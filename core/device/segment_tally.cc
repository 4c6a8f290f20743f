#include "core/device/segment_tally.h"

namespace tenure {

void SegmentTally::Created(Bytes size, bool huge_pages) {
  ++segments_created_;
  bytes_created_ += size.count();
  if (huge_pages) ++huge_segments_created_;
}

void SegmentTally::Destroyed(Bytes size) {
  ++segments_destroyed_;
  bytes_destroyed_ += size.count();
}

void SegmentTally::Exported() { ++exports_; }

BackendCounters SegmentTally::Read() const {
  // What was destroyed is read first: whatever it counts, the creations read afterwards count too.
  BackendCounters counters;
  counters.segments_destroyed = segments_destroyed_;
  counters.bytes_destroyed = Bytes(bytes_destroyed_);
  counters.huge_segments_created = huge_segments_created_;
  counters.segments_created = segments_created_;
  counters.bytes_created = Bytes(bytes_created_);
  counters.exports = exports_;
  return counters;
}

}  // namespace tenure
