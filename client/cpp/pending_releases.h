#pragma once

#include <absl/status/status.h>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "client/cpp/cuda_events.h"
#include "client/cpp/fence_lane.h"
#include "client/cpp/pool_block.h"
#include "client/cpp/timeline_state.h"
#include "tenure/fence.h"

namespace tenure::client {

// Blocks that were released and are still read: each is free once the last of its fences is
// reached. One lane for each timeline, and a list of CUDA events. Allocates nothing once it has
// held as much before on the same timelines. Thread-compatible.
class PendingReleases {
 public:
  explicit PendingReleases(std::shared_ptr<CudaEvents> events) : events_(std::move(events)) {}

  // Whether Hold may be called. INVALID_REQUEST for what is no fence, CUDA_UNAVAILABLE.
  // Thread-safe.
  absl::Status Check(std::span<const Fence> fences) const;
  // Keeps `block` until all fences are reached. False if they are, and it is not kept.
  // REQUIRES: Check was OK.
  bool Hold(const PoolBlock& block, std::span<const Fence> fences);
  // Thread-safe. REQUIRES: Check was OK for it.
  bool IsReached(const Fence& fence) const {
    return fence.timeline() != nullptr ? Reached(fence) : events_->Reached(fence.event());
  }
  // Keeps `block` for as long as this lives.
  void HoldForEver(const PoolBlock& block) { for_ever_.push_back(block); }

  // Shows each block to `free` that is not read any more, and forgets it. DrainSome looks at a few
  // lanes and events only, others than the time before; constant time but for what it frees.
  // Return whether there were any.
  template <typename Free>
  bool DrainSome(const Free& free);
  template <typename Free>
  bool DrainAll(const Free& free);

  // Told of each advance of a timeline that blocks wait for, from now on, until nullptr is set.
  // DrainAll once afterwards: an advance before that is not told.
  void SetWatcher(const std::shared_ptr<TimelineWatcher>& watcher);

  // Whether a fence may still be reached: its timeline is there, or the driver may be asked.
  bool MayDrain() const { return has_events() || MayAdvance(); }
  bool MayAdvance() const;  // for its timeline is there
  bool has_events() const { return !waiting_events_.empty(); }
  // Whether an event was ever among the fences.
  bool had_events() const { return had_events_; }
  // Shows every block that is kept, some of them several times.
  template <typename Visit>
  void ForEach(const Visit& visit) const;

 private:
  // A block that several fences keep.
  struct Group {
    PoolBlock block;
    uint32_t left;  // of the fences; 0 for a spare row
    uint32_t next_spare;
  };
  struct WaitingEvent {
    void* event;
    PoolBlock block;
    uint32_t group;
  };
  static constexpr uint32_t kNoGroup = FenceLane::kNoGroup;
  static constexpr size_t kLanesAtOnce = 4;
  static constexpr size_t kEventsAtOnce = 2;

  static bool Reached(const Fence& fence) {
    return fence.timeline() != nullptr &&
           TimelineState::Of(fence.timeline())->Reached(fence.value(), fence.generation());
  }
  uint32_t NewGroup(const PoolBlock& block, uint32_t fences);
  void HoldOne(const Fence& fence, const PoolBlock& block, uint32_t group) {
    if (last_ < lanes_.size() && lanes_[last_].timeline() == fence.timeline() &&
        lanes_[last_].generation() == fence.generation()) {
      lanes_[last_].Add({.value = fence.value(), .block = block, .group = group});
    } else {
      HoldOneElsewhere(fence, block, group);
    }
  }
  void HoldOneElsewhere(const Fence& fence, const PoolBlock& block, uint32_t group);
  // nullptr if its timeline is gone.
  FenceLane* FindLane(const Fence& fence);
  // Lane `i` is empty, and nobody else refers to its timeline. The last lane takes its place.
  bool IsDone(size_t i) const;
  void DropLane(size_t i);

  // One of its fences is reached.
  template <typename Free>
  void Arrive(const PoolBlock& block, uint32_t group, const Free& free);
  template <typename Free>
  bool DrainLane(size_t i, const Free& free);
  template <typename Free>
  bool DrainEvent(size_t i, const Free& free);

  const std::shared_ptr<CudaEvents> events_;
  std::vector<FenceLane> lanes_;
  std::unordered_map<const TimelineState*, size_t> lane_of_;
  size_t last_ = 0;        // the lane that was used last
  size_t next_lane_ = 0;   // where DrainSome goes on
  size_t next_event_ = 0;  // likewise
  std::vector<WaitingEvent> waiting_events_;
  bool had_events_ = false;
  std::vector<Group> groups_;
  uint32_t spare_group_ = kNoGroup;
  std::vector<PoolBlock> for_ever_;
  std::shared_ptr<TimelineWatcher> watcher_;  // null: nobody waits
};

template <typename Free>
void PendingReleases::Arrive(const PoolBlock& block, uint32_t group, const Free& free) {
  if (group == kNoGroup) return free(block);
  Group& all = groups_[group];
  if (--all.left != 0) return;
  free(all.block);
  all.next_spare = spare_group_;
  spare_group_ = group;
}

template <typename Free>
bool PendingReleases::DrainLane(size_t i, const Free& free) {
  return lanes_[i].Drain(
             [&](const FenceLane::Entry& entry) { Arrive(entry.block, entry.group, free); }) != 0;
}

template <typename Free>
bool PendingReleases::DrainEvent(size_t i, const Free& free) {
  if (!events_->Reached(waiting_events_[i].event)) return false;
  const WaitingEvent reached = waiting_events_[i];
  waiting_events_[i] = waiting_events_.back();
  waiting_events_.pop_back();
  Arrive(reached.block, reached.group, free);
  return true;
}

template <typename Free>
bool PendingReleases::DrainSome(const Free& free) {
  bool any = false;
  for (size_t n = std::min(kLanesAtOnce, lanes_.size()); n > 0; --n) {
    if (++next_lane_ >= lanes_.size()) next_lane_ = 0;
    if (!lanes_[next_lane_].empty()) {
      any |= DrainLane(next_lane_, free);
    } else if (IsDone(next_lane_)) {
      DropLane(next_lane_);
      if (lanes_.empty()) break;
    }
  }
  for (size_t n = std::min(kEventsAtOnce, waiting_events_.size()); n > 0; --n) {
    if (++next_event_ >= waiting_events_.size()) next_event_ = 0;
    any |= DrainEvent(next_event_, free);
    if (waiting_events_.empty()) break;
  }
  return any;
}

template <typename Free>
bool PendingReleases::DrainAll(const Free& free) {
  bool any = false;
  for (size_t i = lanes_.size(); i-- > 0;) {
    any |= DrainLane(i, free);
    if (IsDone(i)) DropLane(i);
  }
  for (size_t i = waiting_events_.size(); i-- > 0;) any |= DrainEvent(i, free);
  return any;
}

template <typename Visit>
void PendingReleases::ForEach(const Visit& visit) const {
  const auto show = [&](const PoolBlock& block, uint32_t group) {
    visit(group == kNoGroup ? block : groups_[group].block);
  };
  for (const FenceLane& lane : lanes_) {
    lane.ForEach([&](const FenceLane::Entry& entry) { show(entry.block, entry.group); });
  }
  for (const WaitingEvent& event : waiting_events_) show(event.block, event.group);
  for (const PoolBlock& block : for_ever_) visit(block);
}

}  // namespace tenure::client
