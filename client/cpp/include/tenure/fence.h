#pragma once

// What a reader of memory must have reached before the memory is used again.

#include <atomic>
#include <cstdint>
#include <utility>

#include "tenure/export.h"

namespace tenure::client {

// For the library: what a Timeline and the fences on it share.
struct TimelineCore {
  std::atomic<uint64_t> value{0};
  std::atomic<uint32_t> references{1};
  std::atomic<uint32_t> watchers{0};  // pools that have to be told of every advance
};

// How far something has come, a worker thread for example: a number that only rises, from 0 on.
// Fences lie on it. Whoever waits for memory gets it in the call of Advance that frees it.
//
// A value that is moved, never copied; threads share it by reference. Fences and pools do not need
// it to be there still: one that is destroyed keeps its last value, and what was not reached by
// then never is. `value` and `Advance` are thread-safe, the others are not.
class TENURE_CLIENT_API Timeline {
 public:
  Timeline();
  Timeline(Timeline&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Timeline& operator=(Timeline&& other) noexcept {
    if (this != &other) {
      End();
      core_ = std::exchange(other.core_, nullptr);
    }
    return *this;
  }
  ~Timeline() { End(); }

  // Every fence at `value` or below is reached: what its reader has read or written until now, it
  // has. A value below the present one changes nothing. Costs an atomic store and a check if nobody
  // waits. REQUIRES: not moved from.
  void Advance(uint64_t value) {
    uint64_t present = core_->value.load(std::memory_order_relaxed);
    do {
      if (present >= value) return;
    } while (!core_->value.compare_exchange_weak(present, value));
    if (core_->watchers.load() != 0) Wake();
  }
  // REQUIRES: not moved from.
  uint64_t value() const { return core_->value.load(std::memory_order_acquire); }

 private:
  friend class Fence;

  void Wake() const;
  void End();

  TimelineCore* core_;  // null once moved from
};

// One reader of a buffer, and when it has ended. A small value. Thread-compatible.
class TENURE_CLIENT_API Fence {
 public:
  // Reached once `timeline` has come to `value`. The timeline may be destroyed before. One that was
  // moved from makes a fence that every release refuses with INVALID_REQUEST.
  static Fence At(const Timeline& timeline, uint64_t value) {
    if (timeline.core_ != nullptr) {
      timeline.core_->references.fetch_add(1, std::memory_order_relaxed);
    }
    return Fence(timeline.core_, value, nullptr);
  }
  // Reached once the work that the event was recorded after has ended. `cu_event` is a CUevent, or
  // a cudaEvent_t, of this process. It must not be recorded again or destroyed until
  // BufferPool::Trim has returned after the event completed, or the pool is gone. An event of which
  // the driver reports an error, as it does once a kernel has failed, is never reached.
  static Fence CudaEvent(void* cu_event) { return Fence(nullptr, 0, cu_event); }

  Fence(const Fence& other) noexcept
      : timeline_(other.timeline_), value_(other.value_), event_(other.event_) {
    if (timeline_ != nullptr) timeline_->references.fetch_add(1, std::memory_order_relaxed);
  }
  Fence(Fence&& other) noexcept
      : timeline_(std::exchange(other.timeline_, nullptr)),
        value_(other.value_),
        event_(std::exchange(other.event_, nullptr)) {}
  Fence& operator=(Fence other) noexcept {
    std::swap(timeline_, other.timeline_);
    std::swap(value_, other.value_);
    std::swap(event_, other.event_);
    return *this;
  }
  ~Fence() {
    if (timeline_ != nullptr) Drop();
  }

  // For the library. Neither: it is no fence.
  TimelineCore* timeline() const { return timeline_; }
  uint64_t value() const { return value_; }
  void* event() const { return event_; }

 private:
  Fence(TimelineCore* timeline, uint64_t value, void* event)
      : timeline_(timeline), value_(value), event_(event) {}

  void Drop() {
    if (timeline_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) Destroy(timeline_);
  }
  static void Destroy(TimelineCore* timeline);

  TimelineCore* timeline_;  // counted; null for an event
  uint64_t value_;
  void* event_;
};

}  // namespace tenure::client

namespace tenure {
using client::Fence;
using client::Timeline;
}  // namespace tenure
