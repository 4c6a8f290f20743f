#pragma once

#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/runtime/buffer.h"

namespace tenure {

// Where a Segment of a Pool stands; see PoolSegment.
enum class PoolSegmentState {
  kComing,   // is being made
  kOpen,     // Buffers are handed out of it
  kGranted,  // its Session divides it itself
  kLeaving,  // wanted back, or over with its Pool: nothing is handed out of it any more
};

// One Pool at one moment: what its Session may have mapped, and what lies in it.
struct PoolMap {
  struct SegmentPlace {
    Bytes offset;
    PoolSegmentState state = PoolSegmentState::kOpen;
    bool shared = false;      // its Session may have it mapped
    bool unanswered = false;  // and has not given it back in time
  };
  struct BufferPlace {
    Buffer buffer;
    Instant since;  // when it was granted
  };

  PoolId id;
  SessionId session;
  bool live = true;  // its lease
  Instant expires;   // the lease, unless it is renewed
  Bytes kind_bytes;  // of the range of each kind
  Bytes segment_size;
  std::vector<SegmentPlace> segments;  // by offset
  std::vector<BufferPlace> buffers;    // in no order
};

}  // namespace tenure
