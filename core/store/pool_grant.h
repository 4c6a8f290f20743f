#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/base/units.h"
#include "core/runtime/buffer.h"

namespace tenure {

// Whole Segments side by side, for the Session to divide itself.
struct SegmentsSpec {
  BufferKind kind = BufferKind::kActivation;
  Bytes bytes;  // rounded up to whole Segments; zero: the Pool is opened, and that is all
};

// Asks for runtime memory; see AcquireBuffersRequest and GrowPoolRequest in buffer.proto.
struct PoolRequest {
  SessionId session;
  std::variant<std::vector<BufferSpec>, SegmentsSpec> wanted;  // at least one, all valid
  uint32_t priority = 0;                                       // the highest is served first
  Duration wait{};  // how long to wait for room that nobody is about to give back
};

// What is asked for, in sum.
Bytes RequestedBytes(const PoolRequest& request);

// The range of offsets that a Session maps its runtime memory into.
struct PoolView {
  PoolId id;
  std::string device;
  std::string backend;
  std::string device_uuid;
  Bytes size;
  Bytes segment_size;
  Duration ttl{};  // of the lease on all of it
};

struct PoolGrant {
  PoolView pool;
  std::vector<Buffer> buffers;  // as asked for, in the same order
  std::vector<Bytes> segments;  // or the offsets of whole Segments, in order
};

}  // namespace tenure
