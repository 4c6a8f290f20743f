#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/segment.h"

namespace tenure {

// Brings bytes into Segments of one Device, for one thread: says where to put them, and takes them
// from there to where they belong. Use it so:
//
//   Prepare, fill what it answered, Commit; again and again; Finish.
//
// CopyAcross and Fill may come between: what is committed, copied across and filled happens in this
// order, and is done once Finish returns. What another writer brings is there once that has
// finished. The destructor waits until nothing is on its way any more. Thread-compatible.
class SegmentWriter {
 public:
  virtual ~SegmentWriter() = default;

  // Memory for the bytes that `target` of the Segment shall hold, or for the first of them: never
  // empty, and good until Commit. Waits while all of the writer's buffers are on their way.
  // REQUIRES: `target` is not empty and lies inside the Segment, whose size it counts from 0.
  virtual StatusOr<std::span<std::byte>> Prepare(const Segment& segment, Range target) = 0;

  // What was prepared is filled, all of it.
  virtual Status Commit() = 0;

  // Copies `from` of `source` to where `to` begins in `target`: another Segment, or the same one.
  // REQUIRES: `from` is not empty; it, and as many bytes from `to` on, lie inside their Segments
  // and do not overlap; both Segments are of the writer's Device.
  Status CopyAcross(const Segment& source, Range from, const Segment& target, Bytes to);

  // Makes every byte of `target` the same. REQUIRES: as Prepare.
  Status Fill(const Segment& segment, Range target, std::byte value);

  // Waits until all that was committed, copied across or filled is where it belongs.
  virtual Status Finish() = 0;

 private:
  // As CopyAcross and Fill, which check what they require.
  virtual Status QueueCopy(const Segment& source, Range from, const Segment& target, Bytes to) = 0;
  virtual Status QueueFill(const Segment& segment, Range target, std::byte value) = 0;
};

// For Segments that the CPU reaches: bytes are put straight where they belong.
std::unique_ptr<SegmentWriter> MakeDirectWriter();

}  // namespace tenure
