#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

#include "tenure/buffer_kind.h"
#include "tenure/call_options.h"
#include "tenure/export.h"
#include "tenure/fence.h"

namespace tenure::client {

struct ScopeState;

// Memory of a scope, good until the scope is released.
struct ScopeBuffer {
  std::byte* data = nullptr;  // its address on the pool's device
  uint64_t size_bytes = 0;    // as asked
  uint64_t offset = 0;        // in the pool's range, in bytes
};

// The buffers of one request. They lie side by side in blocks that it takes from the pool as it
// grows, and are released together: at its end, without fences, if not before. A value that is
// moved, never copied. Scopes of requests at the same time know nothing of each other.
// Thread-compatible: one thread at a time.
class TENURE_CLIENT_API BufferScope {
 public:
  // For the library: BufferPool::OpenScope makes them.
  explicit BufferScope(std::unique_ptr<ScopeState> state);
  BufferScope(BufferScope&& other) noexcept;
  BufferScope& operator=(BufferScope&& other) noexcept;
  ~BufferScope();

  // `bytes` of memory, rounded up to a multiple of 256, so that a buffer can be kept without the
  // next one. `alignment` as in BufferOptions. Errors as in BufferPool::Acquire, and SCOPE_RELEASED
  // if this was released or moved from.
  absl::StatusOr<ScopeBuffer> Acquire(uint64_t bytes, uint64_t alignment = 256,
                                      const CallOptions& options = {}) {
    const uint64_t offset = (at_ + (alignment - 1)) & ~(alignment - 1);
    const uint64_t end = (offset + (bytes + 255)) & ~uint64_t{255};
    if (alignment - 256 > kMostAlignment - 256 || (alignment & (alignment - 1)) != 0 ||
        bytes - 1 >= end_ || end > end_) {
      return AcquireSlowly(bytes, alignment, options);
    }
    at_ = end;
    return ScopeBuffer{.data = base_ + offset, .size_bytes = bytes, .offset = offset};
  }

  // Somebody may use `buffer` until `fence` is reached, also when the scope is released: its memory
  // is kept until then, and no other. May be said several times, once for each such reader.
  // SCOPE_RELEASED. INVALID_REQUEST, without any effect, if `buffer` is not of this scope.
  // INVALID_REQUEST for what is no fence, CUDA_UNAVAILABLE: then its memory is kept for as long as
  // the pool lives, for it may be read.
  absl::Status KeepUntil(const ScopeBuffer& buffer, const Fence& fence);

  // Gives all memory back. Each byte is free once all of `fences` are reached, which are readers of
  // every buffer, and those said to KeepUntil about its buffer. Does not wait. SCOPE_RELEASED,
  // without any effect, if it was released or moved from. Other errors as in PoolBuffer::Release.
  absl::Status Release();
  absl::Status Release(const Fence& fence);
  absl::Status Release(std::span<const Fence> fences);
  absl::Status Release(std::initializer_list<Fence> fences);

 private:
  static constexpr uint64_t kMostAlignment = uint64_t{2} << 20;

  absl::StatusOr<ScopeBuffer> AcquireSlowly(uint64_t bytes, uint64_t alignment,
                                            const CallOptions& options);
  bool Has(const ScopeBuffer& buffer) const;
  void Drop();

  std::unique_ptr<ScopeState> state_;  // null once released or moved from
  // What is left of the block in use, in offsets; nothing if the state is null.
  uint64_t at_ = 0;
  uint64_t end_ = 0;
  std::byte* base_ = nullptr;  // of the pool's range
  bool refused_ = false;       // a release was, so that somebody may read
};

}  // namespace tenure::client

namespace tenure {
using client::BufferScope;
using client::ScopeBuffer;
}  // namespace tenure
