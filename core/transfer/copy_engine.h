#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/device.h"

namespace tenure {

// Bytes of a file and where they go. `target` counts from the base of the Region; its size says how
// many bytes are read from `offset` on.
struct FileSpan {
  const ReadableFile* file = nullptr;
  Bytes offset;
  Range target;
};

// What a running copy tells, and the wish to end it. Thread-safe.
struct CopyProgress {
  std::atomic<uint64_t> bytes_done = 0;
  std::atomic<bool> cancelled = false;
};

struct CopyReport {
  Bytes copied;
  Duration read{};  // from the first read issued to the last one returned
  Duration copy{};  // from there until the last byte was where it belongs
};

// Moves bytes into Segments with large reads on several threads, each through a SegmentWriter of
// its own: straight to where they belong where the CPU reaches it, else with the next read under
// way while the last one's bytes travel. Thread-safe: concurrent copies wait for one another only
// where the Device has no writer left.
class CopyEngine {
 public:
  // REQUIRES: threads >= 1 and `piece`, the largest single read, is not zero.
  CopyEngine(const Clock& clock, int threads, Bytes piece = MiB(4));

  // Fills the Region that `segments` of `device` form side by side. Returns when every read has
  // ended and no byte is on its way. The first error ends it, as does `progress.cancelled`
  // (CANCELLED); what the targets hold is then unknown. REQUIRES: the targets lie inside the Region
  // and do not overlap.
  StatusOr<CopyReport> Read(std::span<const FileSpan> spans, std::span<const Segment> segments,
                            Device& device, CopyProgress& progress) const;

 private:
  const Clock& clock_;
  const int threads_;
  const Bytes piece_;
};

}  // namespace tenure
