#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/device.h"
#include "core/device/pin_watch.h"
#include "core/device/segment.h"

namespace tenure {

// Counts what a host Device did. Thread-safe.
class HostTally {
 public:
  void Created(Bytes size, bool huge);
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

// A sealed memfd of `size` bytes on ordinary or huge pages, all of them allocated, mapped writable
// at a multiple of 2 MiB. BACKEND, with the call that failed and why; nothing is then left behind.
// `tally` and `pins` outlive the backing; to `pins` it is let go if it was ever exported. REQUIRES:
// `size` is a positive multiple of 2 MiB.
StatusOr<std::unique_ptr<Segment::Backing>> MakeHostSegment(Bytes size, bool huge, HostTally& tally,
                                                            PinWatch& pins);

}  // namespace tenure
