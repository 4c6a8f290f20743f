#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tenure/call_options.h"
#include "tenure/export.h"
#include "tenure/fence.h"

namespace tenure::client {

struct SlotState;

struct SlotOptions {
  // A buffer that does not fit the plan is given memory of the pool, as if it were unplanned,
  // instead of an error.
  bool fall_back = false;
};

// Memory of a slot, good until it is released or the slot is closed.
struct SlotBuffer {
  std::byte* data = nullptr;  // its address on the pool's device
  uint64_t size_bytes = 0;    // as asked
  uint64_t offset = 0;        // in the pool's range, in bytes
  bool planned = true;        // false if it fell back
};

// A buffer of a plan: by its id, or by its place in the order of the request.
class BufferName {
 public:
  // NOLINTBEGIN(google-explicit-constructor): for calls as Acquire("logits", bytes).
  BufferName(std::string_view id) : id_(id) {}
  BufferName(const char* id) : id_(id) {}
  BufferName(const std::string& id) : id_(id) {}
  template <std::integral Index>
  BufferName(Index index) : index_(static_cast<size_t>(index)) {}
  // NOLINTEND(google-explicit-constructor)

  // With no data if this is an index.
  std::string_view id() const { return id_; }
  size_t index() const { return index_; }

 private:
  std::string_view id_;
  size_t index_ = 0;
};

// An instance of a BufferPlan, for one request at a time. A buffer gets the bytes that the plan has
// for it if nobody uses them: not before the last reader of what was there has ended, which is when
// its fences are reached, not when it was released. A value that is moved, never copied; closed at
// its end, without fences, if not before. Thread-compatible: one thread at a time.
class TENURE_CLIENT_API PlannedSlot {
 public:
  // For the library: BufferPlan::OpenSlot makes them.
  explicit PlannedSlot(std::unique_ptr<SlotState> state);
  PlannedSlot(PlannedSlot&& other) noexcept;
  PlannedSlot& operator=(PlannedSlot&& other) noexcept;
  ~PlannedSlot();

  // As PoolBuffer::valid.
  bool valid() const;

  // Its buffer's bytes, at most as many as planned, nor more aligned; in nanoseconds. Views of one
  // memory may be acquired while others of them are, or are still read. After an error everything
  // is as it was:
  //   PLAN_TOO_SMALL  it is larger or more aligned than planned
  //   PLAN_OVERLAP    the value `other` names a buffer that the plan has on the same bytes, and
  //   that
  //                   is in use or still read; itself, if it is read since its last release
  //   NOT_PLANNED     the plan has no such buffer
  //   ACQUIRED        it was, and not released since
  //   SLOT_CLOSED, INVALID_REQUEST, and those of a lost pool as in BufferPool::Acquire
  // With `fall_back` a buffer of the pool is given instead of the first two, unless the memory is
  // that of a view in use, with the errors of BufferPool::Acquire.
  absl::StatusOr<SlotBuffer> Acquire(const BufferName& buffer, uint64_t bytes,
                                     uint64_t alignment = 1, const CallOptions& options = {});
  // One more view of an acquired buffer, which the plan knows nothing of: it is in use until it was
  // released once more. NOT_ACQUIRED, NOT_PLANNED, SLOT_CLOSED.
  absl::Status AddView(const BufferName& buffer);

  // Nobody uses the buffer once all of the fences are reached, as in PoolBuffer::Release; the
  // memory is free for others once the last view of it was released and all fences of all of them
  // are reached. Does not wait. NOT_ACQUIRED, NOT_PLANNED, SLOT_CLOSED; INVALID_REQUEST for what is
  // no fence, CUDA_UNAVAILABLE: then this is not released, and can be with other fences.
  absl::Status Release(const BufferName& buffer);
  absl::Status Release(const BufferName& buffer, const Fence& fence);
  absl::Status Release(const BufferName& buffer, std::span<const Fence> fences);
  absl::Status Release(const BufferName& buffer, std::initializer_list<Fence> fences);

  // Releases what is acquired, and gives the slot's memory to the next slot once all of `fences`
  // and those named for its buffers are reached. Does not wait. SLOT_CLOSED, without any effect, if
  // it was closed or moved from. Other errors as in PoolBuffer::Release. CUDA events named for
  // buffers are the slot's until then, see Fence::CudaEvent.
  absl::Status Close();
  absl::Status Close(const Fence& fence);
  absl::Status Close(std::span<const Fence> fences);
  absl::Status Close(std::initializer_list<Fence> fences);

 private:
  void Drop();

  std::unique_ptr<SlotState> state_;  // null once closed or moved from
  bool refused_ = false;              // a release was, so that somebody may read
};

}  // namespace tenure::client

namespace tenure {
using client::BufferName;
using client::PlannedSlot;
using client::SlotBuffer;
using client::SlotOptions;
}  // namespace tenure
