#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/cpp/pool_block.h"
#include "client/cpp/timeline_state.h"

namespace tenure::client {

// What waits for one timeline, each for a value of its own. Those that come in the order of their
// values lie in a ring, others in a heap: the first of both is the next one to be reached. The
// memory of both is used again. Thread-compatible.
class FenceLane {
 public:
  static constexpr uint32_t kNoGroup = UINT32_MAX;

  struct Entry {
    uint64_t value;
    PoolBlock block;  // if it is in no group
    uint32_t group;   // of several fences for one block, or kNoGroup
  };

  // Takes over a reference to the timeline.
  explicit FenceLane(TimelineState* timeline)
      : timeline_(timeline), generation_(timeline->generation()), ring_(kLeastRing) {}
  FenceLane(FenceLane&& other) noexcept;
  FenceLane& operator=(FenceLane&& other) noexcept;
  ~FenceLane();

  TimelineState* timeline() const { return timeline_; }
  uint32_t generation() const { return generation_; }
  size_t size() const { return count_ + heap_.size(); }
  bool empty() const { return size() == 0; }

  void Add(const Entry& entry) {
    if (count_ != 0 && entry.value < At(count_ - 1).value) return AddOutOfOrder(entry);
    if (count_ == ring_.size()) Widen();
    At(count_++) = entry;
  }
  // Takes out those that are reached and shows each to `visit`, in the order of their values within
  // the ring and within the heap. Returns how many there were.
  template <typename Visit>
  size_t Drain(const Visit& visit) {
    if (empty()) return 0;
    const uint64_t reached = timeline_->value.load(std::memory_order_acquire);
    size_t drained = 0;
    while (count_ != 0 && At(0).value <= reached) {
      visit(At(0));
      first_ = (first_ + 1) & (ring_.size() - 1);
      --count_;
      ++drained;
    }
    while (!heap_.empty() && heap_.front().value <= reached) {
      visit(heap_.front());
      DropFirstOfHeap();
      ++drained;
    }
    return drained;
  }
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (size_t i = 0; i < count_; ++i) visit(ring_[(first_ + i) & (ring_.size() - 1)]);
    for (const Entry& entry : heap_) visit(entry);
  }

 private:
  static constexpr size_t kLeastRing = 16;

  Entry& At(size_t i) { return ring_[(first_ + i) & (ring_.size() - 1)]; }
  void Widen();
  void AddOutOfOrder(const Entry& entry);
  void DropFirstOfHeap();

  TimelineState* timeline_;  // null once moved from
  uint32_t generation_;
  std::vector<Entry> ring_;  // as many as a power of two; values ascend
  size_t first_ = 0;
  size_t count_ = 0;
  std::vector<Entry> heap_;  // the least value first
};

}  // namespace tenure::client
