#pragma once

// Runtime memory on one device: buffers that an inference needs for as long as it runs, handed out
// in nanoseconds from memory that the session holds already.
//
//   auto buffer = pool.Acquire(bytes);
//   Launch(stream, buffer->data());  // Timeline `compute` comes to 3 when this is done
//   buffer->Release(Fence::At(compute, 3));

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tenure/buffer_kind.h"
#include "tenure/buffer_plan.h"
#include "tenure/buffer_recording.h"
#include "tenure/buffer_scope.h"
#include "tenure/call_options.h"
#include "tenure/export.h"
#include "tenure/fence.h"

namespace tenure::client {

class LocalPool;
class PlanCache;

struct PoolOptions {
  // Empty: where this session has a pool, or else where there is most room.
  std::string device{};
  // Among those that wait for room the highest is served first, and within one who came first.
  uint32_t priority = 0;
  // How long to wait for room that others hold, when the pool has to grow.
  std::chrono::nanoseconds wait{0};
  // How long memory is kept that is not needed any more.
  std::chrono::nanoseconds idle_ttl = std::chrono::seconds(10);
};

struct BufferOptions {
  // Of the address: a power of two, at most 2 MiB. Addresses are multiples of 256 in any case.
  uint64_t alignment = 256;
  BufferKind kind = BufferKind::kActivation;
};

// Memory of a pool for one purpose: readable and writable, its content unknown at first. A value
// that is moved, never copied. It keeps what the pool is made of alive, also when the BufferPool is
// gone. Thread-compatible: one thread may acquire it and another one release it.
class TENURE_CLIENT_API PoolBuffer {
 public:
  // For the library: BufferPool::Acquire makes them.
  PoolBuffer(LocalPool* pool, std::byte* data, uint64_t size_bytes, uint64_t offset, uint64_t name,
             BufferKind kind)
      : data_(data), size_(size_bytes), offset_(offset), name_(name), pool_(pool), kind_(kind) {}
  PoolBuffer(PoolBuffer&& other) noexcept
      : data_(other.data_),
        size_(other.size_),
        offset_(other.offset_),
        name_(other.name_),
        pool_(std::exchange(other.pool_, nullptr)),
        kind_(other.kind_),
        refused_(other.refused_) {}
  PoolBuffer& operator=(PoolBuffer&& other) noexcept;
  // Releases it without fences, if that was not done.
  ~PoolBuffer() {
    if (pool_ != nullptr) Drop();
  }

  // False once the pool is lost, as when its lease expired, or this was released or moved from; and
  // then for ever. The memory of a lost pool may be another's, and is not to be used.
  bool valid() const;

  // The address on the pool's device, see WeightLease::base; what was asked for, in bytes; where it
  // lies in the pool's range, in bytes. REQUIRES: neither released nor moved from.
  std::byte* data() const { return data_; }
  uint64_t size_bytes() const { return size_; }
  uint64_t offset() const { return offset_; }
  BufferKind kind() const { return kind_; }

  // Gives the memory back: it is free once the last of the fences is reached, one for each reader
  // and writer that may not have ended; at once if there are none. A fence that is never reached
  // keeps this memory for as long as the pool lives, and no other. Does not wait.
  //
  // RELEASED, without any effect, if it was released or moved from. INVALID_REQUEST for what is no
  // fence, CUDA_UNAVAILABLE for a CUDA event in a process without a driver to ask: then this is not
  // released, and can be with other fences. If it is not, its memory is kept for as long as the
  // pool lives, for it may be read. After the pool was lost it succeeds.
  absl::Status Release();
  absl::Status Release(const Fence& fence);
  absl::Status Release(std::span<const Fence> fences);
  absl::Status Release(std::initializer_list<Fence> fences);

 private:
  void Drop();

  // In an order in which they are copied in pairs as they are written.
  std::byte* data_;
  uint64_t size_;
  uint64_t offset_;
  uint64_t name_;    // what the pool knows it by
  LocalPool* pool_;  // null once released or moved from; lives as long as its blocks do
  BufferKind kind_;
  bool refused_ = false;  // a release was, so that somebody may read
};

// A session's runtime memory on one device. It grows by whole segments that the daemon grants, and
// gives them back when they have not been used for a while or the daemon asks for memory.
//
// Thread-safe, except for moving and destroying. When it is destroyed buffers and scopes stay good,
// and give their memory back to the daemon at their end, once their fences on timelines are
// reached.
class TENURE_CLIENT_API BufferPool {
 public:
  // For the library: Client makes them.
  BufferPool(std::shared_ptr<LocalPool> pool, std::shared_ptr<PlanCache> plans);
  BufferPool(BufferPool&& other) noexcept;
  BufferPool& operator=(BufferPool&& other) noexcept;
  ~BufferPool();

  // `bytes` of memory for one purpose. In nanoseconds if they are there. Otherwise it asks the
  // daemon for more; if that refuses, waits for released memory whose fences are not reached yet;
  // and if that was not enough, answers what the daemon said. Who waits for the same kind is served
  // in the order of coming.
  //
  // INVALID_REQUEST for no bytes or more than the pool can ever have, or a bad alignment or kind.
  // FORKED in a child made by fork(). LEASE_EXPIRED, DEVICE_LOST, DAEMON_GONE,
  // HEARTBEAT_MISSED once the pool is lost. Refusals of the daemon, as CAPACITY. DEADLINE_EXCEEDED
  // and CANCELLED, as `options` say. REQUIRES: not moved from, as for all below.
  absl::StatusOr<PoolBuffer> Acquire(uint64_t bytes, const BufferOptions& buffer = {},
                                     const CallOptions& options = {}) const;
  // For the buffers of one request. See BufferScope.
  BufferScope OpenScope(BufferKind kind = BufferKind::kActivation) const;

  // Notes every buffer from now on, and what is acquired of scopes that are opened from now on.
  // FAILED_PRECONDITION with reason RECORDING if a recording is under way.
  absl::StatusOr<BufferRecording> Record() const;

  // A plan of the daemon for requests that use buffers so; for the same uses, in the same order,
  // the one that this client was given before, as long as it has it. What comes of a plan is this
  // pool's.
  //
  // INVALID_PLAN_INPUT for what makes no sense, with the values `buffer` and `fault`.
  // INVALID_REQUEST for an alignment that no pool gives. LIMIT for more than 100,000 buffers, or
  // where too many wait for plans. Errors of a lost pool as in Acquire.
  absl::StatusOr<BufferPlan> Plan(const std::vector<BufferUse>& uses, const PlanOptions& plan = {},
                                  const CallOptions& options = {}) const;

  // Looks at every fence, and gives back to the daemon all segments without a buffer, at once.
  // Likewise the memory of closed slots. Returns how many bytes it gave.
  uint64_t Trim() const;
  // The segments that the pool has, and the memory of slots; and what of that is in buffers and
  // slots or kept by fences not known to be reached, in blocks of 256 bytes.
  uint64_t held_bytes() const;
  uint64_t used_bytes() const;
  // False once it is lost, and then for ever.
  bool valid() const;

 private:
  std::shared_ptr<LocalPool> pool_;
  std::shared_ptr<PlanCache> plans_;
};

}  // namespace tenure::client

namespace tenure {
using client::BufferOptions;
using client::BufferPool;
using client::PoolBuffer;
using client::PoolOptions;
}  // namespace tenure
