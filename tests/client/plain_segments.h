#pragma once

#include <absl/status/status.h>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <vector>

#include "client/cpp/cuda_events.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/plan_cache.h"
#include "client/cpp/segment_source.h"
#include "core/base/clock.h"
#include "core/plan/make_plan.h"
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

  // In the upper half of the range, one after the other.
  absl::StatusOr<Granted> AcquireBuffer(uint64_t bytes, uint64_t alignment, Deadline,
                                        const std::stop_token&) override {
    const std::lock_guard lock(mutex_);
    ++buffer_calls_;
    uint64_t taken = 0;
    for (const auto& [id, size] : buffers_) taken += size;
    if (taken + bytes > most_buffer_bytes_) return absl::ResourceExhaustedError("no more room");
    next_buffer_ = (next_buffer_ + alignment - 1) / alignment * alignment;
    const Granted granted{.offset = next_buffer_, .buffer_id = ++last_buffer_};
    buffers_.emplace(granted.buffer_id, bytes);
    next_buffer_ += bytes;
    return granted;
  }

  void ReleaseBuffers(const std::vector<uint64_t>& buffer_ids) override {
    const std::lock_guard lock(mutex_);
    for (const uint64_t id : buffer_ids) bad_ += buffers_.erase(id) == 0;
  }

  void set_most_buffer_bytes(uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    most_buffer_bytes_ = bytes;
  }
  int buffer_calls() const {
    const std::lock_guard lock(mutex_);
    return buffer_calls_;
  }
  // The sizes of the buffers that are granted.
  std::vector<uint64_t> buffers() const {
    const std::lock_guard lock(mutex_);
    std::vector<uint64_t> sizes;
    for (const auto& [id, size] : buffers_) sizes.push_back(size);
    return sizes;
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
  // Segments and buffers that were given back and had not been granted.
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
  std::map<uint64_t, uint64_t> buffers_;  // sizes, by id
  uint64_t most_buffer_bytes_ = UINT64_MAX;
  uint64_t next_buffer_ = uint64_t{1} << 29;
  uint64_t last_buffer_ = 0;
  int buffer_calls_ = 0;
};

// Events that the test completes. Thread-safe.
class PlainEvents final : public CudaEvents {
 public:
  absl::Status Available() override { return available_; }
  bool Reached(void* cu_event) override { return *static_cast<std::atomic<bool>*>(cu_event); }

  absl::Status available_;
};

// Plans in this process, and how often it was asked for one.
class PlainPlanner {
 public:
  absl::StatusOr<MadePlan> operator()(const PlanInput& input, std::optional<Duration> budget,
                                      Deadline, const std::stop_token&) const;

  std::shared_ptr<int> calls = std::make_shared<int>(0);
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
  PlainPlanner planner;
  BufferPool pool{local, std::make_shared<PlanCache>(planner)};

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

inline absl::StatusOr<MadePlan> PlainPlanner::operator()(const PlanInput& input,
                                                         std::optional<Duration> budget, Deadline,
                                                         const std::stop_token&) const {
  ++*calls;
  const absl::StatusOr<PlanProblem> problem = MakePlanProblem(input);
  if (!problem.ok()) return problem.status();
  const SteadyClock clock;
  const Plan plan =
      MakePlan(*problem, {.budget = budget.value_or(std::chrono::milliseconds(100))}, clock);
  MadePlan made{.height = plan.height, .lower_bound = plan.lower_bound, .proven = plan.proven};
  for (const uint32_t storage : problem->storage_of) made.offsets.push_back(plan.offsets[storage]);
  return made;
}

}  // namespace tenure::client
