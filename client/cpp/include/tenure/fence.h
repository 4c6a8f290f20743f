#pragma once

// What a reader of memory must have reached before the memory is used again.

#include <atomic>
#include <cstdint>
#include <utility>

#include "tenure/export.h"

namespace tenure::client {

// For the library: what is behind a Timeline. Never freed, but used again by later timelines, of
// which a fence knows its own by the generation.
struct TimelineCore {
  std::atomic<uint64_t> value{0};
  std::atomic<uint64_t> owners{0};    // generation << 32 | Timeline and pools that refer to it
  std::atomic<uint32_t> watchers{0};  // pools that have to be told of every advance
};

// How far something has come, a worker thread for example: a number that only rises, from 0 on.
// Fences lie on it. Whoever waits for memory gets it in the call of Advance that frees it.
//
// A value that is moved, never copied; threads share it by reference. It need not outlive the
// releases that name it: what it had not reached when it was destroyed it never does. `value`,
// `Advance` and Fence::At are thread-safe, the others are not.
class TENURE_CLIENT_API Timeline {
 public:
  Timeline();
  Timeline(Timeline&& other) noexcept
      : core_(std::exchange(other.core_, nullptr)), generation_(other.generation_) {}
  Timeline& operator=(Timeline&& other) noexcept {
    if (this != &other) {
      End();
      core_ = std::exchange(other.core_, nullptr);
      generation_ = other.generation_;
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
  uint32_t generation_;
};

// One reader of a buffer, and when it has ended. A small value that is copied freely.
// Thread-compatible.
class TENURE_CLIENT_API Fence {
 public:
  // Reached once `timeline` has come to `value`. To be named in a release while the timeline is
  // there: afterwards it may go. A release refuses a fence whose timeline is gone, or was moved
  // from when it was made, with INVALID_REQUEST, for nobody can tell when it is reached.
  static Fence At(const Timeline& timeline, uint64_t value) {
    return Fence(timeline.core_, nullptr, value, timeline.generation_);
  }
  // Reached once the work that the event was recorded after has ended. `cu_event` is a CUevent, or
  // a cudaEvent_t, of this process. It must not be recorded again or destroyed until
  // BufferPool::Trim has returned after the event completed, or the pool is gone. An event of which
  // the driver reports an error, as it does once a kernel has failed, is never reached.
  static Fence CudaEvent(void* cu_event) { return Fence(nullptr, cu_event, 0, 0); }

  // For the library. A fence without timeline and event is none.
  TimelineCore* timeline() const { return timeline_; }
  void* event() const { return event_; }
  uint64_t value() const { return value_; }
  uint32_t generation() const { return generation_; }

 private:
  Fence(TimelineCore* timeline, void* event, uint64_t value, uint32_t generation)
      : timeline_(timeline), event_(event), value_(value), generation_(generation) {}

  TimelineCore* timeline_;  // null for an event
  void* event_;
  uint64_t value_;
  uint32_t generation_;
};

}  // namespace tenure::client

namespace tenure {
using client::Fence;
using client::Timeline;
}  // namespace tenure
