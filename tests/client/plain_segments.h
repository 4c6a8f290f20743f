#pragma once

#include <absl/status/status.h>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <stop_token>
#include <vector>

#include "client/cpp/cuda_events.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/segment_source.h"
#include "tenure/buffer_pool.h"

namespace tenure::client {

inline constexpr uint64_t kSegment = uint64_t{4} << 20;

// A source of segments without anything behind it: a range, of which it grants the first gap that
// fits. Refuses once it has granted as much as it may. Thread-safe.
class PlainSegments final : public SegmentSource {
 public:
  absl::StatusOr<Grown> Grow(BufferKind, uint64_t bytes, Deadline deadline,
                             const std::stop_token& cancel) override {
    std::unique_lock lock(mutex_);
    ++grows_;
    changed_.notify_all();
    changed_.wait_until(lock, cancel, deadline.at(), [&] { return !stuck_; });
    if (cancel.stop_requested()) return absl::CancelledError("no longer wanted");
    if (stuck_) return absl::DeadlineExceededError("no answer");
    const uint64_t count = (bytes + kSegment - 1) / kSegment;
    if (granted_.size() + count > most_) return absl::ResourceExhaustedError("no more segments");
    uint64_t begin = 0;
    for (const uint64_t segment : granted_) {
      if (segment >= begin + count) break;
      begin = segment + 1;
    }
    for (uint64_t i = 0; i < count; ++i) granted_.insert(begin + i);
    return Grown{.offset = begin * kSegment, .bytes = count * kSegment};
  }

  void Shrink(std::vector<uint64_t> offsets) override {
    const std::lock_guard lock(mutex_);
    for (const uint64_t offset : offsets) bad_ += granted_.erase(offset / kSegment) == 0;
  }

  // Segments; by default it has no end.
  void set_most(uint64_t most) {
    const std::lock_guard lock(mutex_);
    most_ = most;
  }
  // A call does not end any more, until it is cancelled or over its deadline, or this is false.
  void set_stuck(bool stuck) {
    const std::lock_guard lock(mutex_);
    stuck_ = stuck;
    changed_.notify_all();
  }
  int grows() const {
    const std::lock_guard lock(mutex_);
    return grows_;
  }
  void AwaitGrows(int grows) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return grows_ >= grows; });
  }
  uint64_t granted_bytes() const {
    const std::lock_guard lock(mutex_);
    return granted_.size() * kSegment;
  }
  // Segments that were given back and had not been granted.
  int bad() const {
    const std::lock_guard lock(mutex_);
    return bad_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::set<uint64_t> granted_;  // by their number
  uint64_t most_ = UINT64_MAX;
  bool stuck_ = false;
  int grows_ = 0;
  int bad_ = 0;
};

// Events that the test completes. Thread-safe.
class PlainEvents final : public CudaEvents {
 public:
  absl::Status Available() override { return available_; }
  bool Reached(void* cu_event) override { return *static_cast<std::atomic<bool>*>(cu_event); }

  absl::Status available_;
};

// A pool over plain segments, as a session has it.
struct PlainPool {
  std::shared_ptr<PlainSegments> segments = std::make_shared<PlainSegments>();
  std::shared_ptr<PlainEvents> events = std::make_shared<PlainEvents>();
  std::shared_ptr<LocalPool> local =
      std::make_shared<LocalPool>(LocalPool::Options{.base = Base(),
                                                     .range_bytes = uint64_t{1} << 30,
                                                     .segment_bytes = kSegment,
                                                     .idle_ttl = std::chrono::seconds(8)},
                                  segments, events);
  BufferPool pool{local};

  // Nobody touches what lies there.
  static std::byte* Base() { return reinterpret_cast<std::byte*>(uintptr_t{1} << 40); }

  PoolBuffer Take(uint64_t bytes, BufferKind kind = BufferKind::kActivation) const {
    return *pool.Acquire(bytes, {.kind = kind});
  }
  // At once, or not at all.
  bool Fits(uint64_t bytes) const {
    return pool.Acquire(bytes, {}, {.timeout = std::chrono::nanoseconds(0)}).ok();
  }
};

}  // namespace tenure::client
