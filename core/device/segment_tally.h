#pragma once

#include <atomic>

#include "core/base/units.h"
#include "core/device/device.h"

namespace tenure {

// Counts what a backend did. Thread-safe.
class SegmentTally {
 public:
  void Created(Bytes size, bool huge_pages);
  void Destroyed(Bytes size);
  void Exported();

  // In each answer destroyed <= created.
  BackendCounters Read() const;

 private:
  std::atomic<uint64_t> segments_created_ = 0;
  std::atomic<uint64_t> segments_destroyed_ = 0;
  std::atomic<uint64_t> bytes_created_ = 0;
  std::atomic<uint64_t> bytes_destroyed_ = 0;
  std::atomic<uint64_t> huge_segments_created_ = 0;
  std::atomic<uint64_t> exports_ = 0;
};

}  // namespace tenure
