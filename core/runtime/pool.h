#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/device/segment.h"
#include "core/runtime/buffer.h"
#include "core/runtime/pool_map.h"
#include "core/runtime/pool_range.h"

namespace tenure {

// One Segment's place in a Pool: how it is used, and what its Session may still see of it.
struct PoolSegment {
  std::optional<Segment> segment;  // none while it is being made
  // Its Session may have it mapped, under this serial, from the first export on.
  ShareSerial share;
  uint32_t exports = 0;  // that use the memory
  uint32_t sending = 0;  // under this serial, begun and not ended
  bool sent = false;     // fds of one that ended may have reached the Session
  // Handed to the Session as a whole, which divides it itself.
  std::optional<PoolRange::Block> granted;
  Instant unused_since;  // while no block lies in it
  // Wanted back: nothing is handed out of it any more.
  bool closed = false;
  std::optional<Instant> answer_by;  // the Session has been asked to unmap it
  bool unanswered = false;           // and has not in time
};

// How the bytes of a Pool's Segments are used:
//
//   segments = blocks + free + unanswered        requested <= blocks
struct PoolBytes {
  Bytes segments;    // that exist
  Bytes coming;      // that are being made
  Bytes blocks;      // in Buffers and granted Segments
  Bytes granted;     // of those, in granted Segments
  Bytes maybe_idle;  // of those, in Buffers that may be idle
  Bytes requested;   // of those, what was asked for
  Bytes unanswered;  // wanted back in vain
  Bytes free() const { return segments - blocks - unanswered; }
  // What its Session may have no use for, as only it knows.
  Bytes askable() const { return granted + maybe_idle; }
};

// One Session's contiguous runtime range, in which each kind of Buffer has a part of its own. It
// places Buffers at offsets that stay, in Segments that come and go; the memory of Segments is
// never touched here. Thread-compatible.
class Pool {
 public:
  struct Shape {
    Bytes segment_size;
    Bytes kind_bytes;  // of the range of each kind; a multiple of segment_size
    Bytes size() const { return kind_bytes * kAllBufferKinds.size(); }
  };

  Pool(PoolId id, SessionId session, const Shape& shape);

  PoolId id() const { return id_; }
  SessionId session() const { return session_; }
  const std::map<Bytes, PoolSegment>& segments() const { return segments_; }
  const PoolBytes& bytes() const { return bytes_; }

  // What placing came to: blocks for all that was asked for, in the same order, or the Segments
  // that must come first, or neither if the range has no place for them. When those have come,
  // place again: hardly ever others are missing then, as all holes are looked at anew.
  struct Placement {
    std::vector<PoolRange::Block> blocks;
    std::vector<Bytes> missing;
    bool placed() const { return !blocks.empty(); }
    bool possible() const { return placed() || !missing.empty(); }
  };
  // All or nothing. REQUIRES: valid specs, at least one.
  Placement Place(std::span<const BufferSpec> specs);
  // Whole Segments side by side, for the Session to divide; `bytes` is rounded up. REQUIRES:
  // bytes > 0.
  Placement PlaceSegments(BufferKind kind, Bytes bytes);

  // A block that was placed is not needed after all.
  void GiveBack(BufferKind kind, const PoolRange::Block& block) { RangeOf(kind).Free(block); }
  // Registers blocks that were placed.
  Buffer AddBuffer(BufferId id, const BufferSpec& spec, const PoolRange::Block& block, Instant now);
  // The offsets of the Segments, in order.
  std::vector<Bytes> Grant(BufferKind kind, const PoolRange::Block& block);
  // What was released, and since when it was held; nullopt if there is no such Buffer.
  struct Released {
    BufferKind kind;
    Instant since;
  };
  std::optional<Released> Release(BufferId id, Instant now);
  // Ends every Buffer and every grant, and closes every Segment that is there. The Buffers.
  std::vector<BufferId> ReleaseAll(Instant now);
  bool Has(BufferId id) const { return buffers_.contains(id); }
  size_t buffer_count() const { return buffers_.size(); }
  // In no order.
  std::vector<PoolMap::BufferPlace> Buffers() const;

  // --- Segments, named by the offset of their first byte.
  void Expect(Bytes offset);
  void Fill(Bytes offset, Segment segment, Instant now);
  // It does not come after all.
  void Abandon(Bytes offset);
  PoolSegment* Find(Bytes offset);
  // True if it is there, open, and no block lies in it.
  bool Unused(Bytes offset) const;
  bool IsGranted(Bytes offset) const;
  // Nothing is handed out of it any more. A grant of it ends. REQUIRES: Unused or granted.
  void Close(Bytes offset, Instant now);
  void MarkUnanswered(Bytes offset);
  // REQUIRES: closed, no share, no export.
  Segment Take(Bytes offset);

  // Between the two calls blocks are placed as if these Segments were not there. REQUIRES: Unused.
  void SetAside(std::span<const Bytes> offsets);
  void TakeBack(std::span<const Bytes> offsets);

  // The largest Buffer that could be placed once at most `most` Segments had come.
  Bytes LargestFree(uint64_t most) const;
  // Live Buffers around the largest hole of the filled Segments of a kind: what to wait for. None
  // if nothing is free.
  std::vector<Buffer> AroundLargestHole(BufferKind kind) const;

  // CHECKs all sums.
  void Validate() const;

 private:
  struct Held {
    Buffer buffer;
    PoolRange::Block block;
    Instant since;
    bool may_be_idle = false;
  };

  PoolRange& RangeOf(BufferKind kind) { return ranges_[static_cast<size_t>(kind)]; }
  PoolRange& RangeAt(Bytes offset) { return ranges_[offset / shape_.kind_bytes]; }
  const PoolRange& RangeAt(Bytes offset) const { return ranges_[offset / shape_.kind_bytes]; }
  void FreeBlock(PoolRange& range, const PoolRange::Block& block, Bytes requested, Instant now);

  const PoolId id_;
  const SessionId session_;
  const Shape shape_;
  std::array<PoolRange, kAllBufferKinds.size()> ranges_;
  std::map<Bytes, PoolSegment> segments_;
  std::unordered_map<BufferId, Held> buffers_;
  PoolBytes bytes_;
};

}  // namespace tenure
