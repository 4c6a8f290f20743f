#pragma once

#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/pin_watch.h"
#include "core/device/segment.h"
#include "core/device/segment_tally.h"

namespace tenure {

// A memfd of `size` bytes on ordinary or huge pages, all of them allocated, mapped writable at a
// multiple of 2 MiB, and sealed: whoever gets its fd cannot change its size, nor write weights.
// BACKEND, with the call that failed and why; nothing is then left behind. `tally` and `pins`
// outlive the backing; to `pins` it is let go if it was ever exported. REQUIRES: `size` is a
// positive multiple of 2 MiB.
StatusOr<std::unique_ptr<Segment::Backing>> MakeHostSegment(SegmentUse use, Bytes size, bool huge,
                                                            SegmentTally& tally, PinWatch& pins);

}  // namespace tenure
