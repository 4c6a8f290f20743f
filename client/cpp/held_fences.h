#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "client/cpp/local_pool.h"
#include "client/cpp/timeline_state.h"
#include "tenure/fence.h"

namespace tenure::client {

// Fences that are not known to be reached, and references to their timelines, so that it can be
// told of each when it is though its Timeline has gone. Moved, never copied. Thread-compatible.
class HeldFences {
 public:
  HeldFences() = default;
  HeldFences(HeldFences&& other) noexcept
      : fences_(std::exchange(other.fences_, {})),
        timelines_(std::exchange(other.timelines_, {})) {}
  HeldFences& operator=(HeldFences&& other) = delete;
  ~HeldFences() { Clear(); }

  // REQUIRES: LocalPool::CheckFences was OK.
  void Add(std::span<const Fence> fences) {
    for (const Fence& fence : fences) {
      TimelineState* const timeline = TimelineState::Of(fence.timeline());
      if (timeline != nullptr && timeline->Reached(fence.value(), fence.generation())) continue;
      fences_.push_back(fence);
      const bool refers = timeline != nullptr && timeline->TryRefer(fence.generation());
      timelines_.push_back(refers ? timeline : nullptr);
    }
  }
  // Forgets those that are reached, and tells whether none is left.
  bool AllReached(const LocalPool& pool) {
    for (size_t i = fences_.size(); i-- > 0;) {
      if (!pool.IsReached(fences_[i])) continue;
      if (timelines_[i] != nullptr) timelines_[i]->Drop();
      std::swap(fences_[i], fences_.back());
      std::swap(timelines_[i], timelines_.back());
      fences_.pop_back();
      timelines_.pop_back();
    }
    return fences_.empty();
  }
  void Clear() {
    for (TimelineState* const timeline : timelines_) {
      if (timeline != nullptr) timeline->Drop();
    }
    fences_.clear();
    timelines_.clear();
  }
  bool empty() const { return fences_.empty(); }
  std::span<const Fence> fences() const { return fences_; }

 private:
  std::vector<Fence> fences_;
  std::vector<TimelineState*> timelines_;  // of each; null for an event, or if it was gone already
};

}  // namespace tenure::client
