#include "client/cpp/pending_releases.h"

#include "client/cpp/error.h"

namespace tenure::client {

absl::Status PendingReleases::Check(std::span<const Fence> fences) const {
  for (const Fence& fence : fences) {
    if (fence.timeline() != nullptr) {
      if (TimelineState::Of(fence.timeline())->IsThere(fence.generation())) continue;
      return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                       "the timeline of a fence is gone");
    }
    if (fence.event() == nullptr) {
      return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                       "a fence is on no timeline and no CUDA event");
    }
    TENURE_CLIENT_RETURN_IF_ERROR(events_->Available());
  }
  return absl::OkStatus();
}

bool PendingReleases::Hold(const PoolBlock& block, std::span<const Fence> fences) {
  if (fences.size() == 1) {
    if (Reached(fences.front())) return false;
    HoldOne(fences.front(), block, kNoGroup);
    return true;
  }
  uint32_t group = kNoGroup;
  for (const Fence& fence : fences) {
    if (Reached(fence)) continue;
    if (group == kNoGroup) group = NewGroup(block, 0);
    ++groups_[group].left;
    HoldOne(fence, block, group);
  }
  return group != kNoGroup;
}

uint32_t PendingReleases::NewGroup(const PoolBlock& block, uint32_t fences) {
  uint32_t group = spare_group_;
  if (group == kNoGroup) {
    group = static_cast<uint32_t>(groups_.size());
    groups_.emplace_back();
  } else {
    spare_group_ = groups_[group].next_spare;
  }
  groups_[group] = {.block = block, .left = fences, .next_spare = kNoGroup};
  return group;
}

void PendingReleases::HoldOneElsewhere(const Fence& fence, const PoolBlock& block, uint32_t group) {
  if (fence.timeline() == nullptr) {
    had_events_ = true;
    waiting_events_.push_back({.event = fence.event(), .block = block, .group = group});
  } else if (FenceLane* const lane = FindLane(fence); lane != nullptr) {
    lane->Add({.value = fence.value(), .block = block, .group = group});
  } else if (group == kNoGroup) {
    // It is never reached. A group misses it for ever as it is.
    for_ever_.push_back(block);
  }
}

FenceLane* PendingReleases::FindLane(const Fence& fence) {
  TimelineState* const timeline = TimelineState::Of(fence.timeline());
  const auto found = lane_of_.find(timeline);
  if (found != lane_of_.end()) {
    // What a lane refers to keeps its generation.
    last_ = found->second;
    return lanes_[last_].generation() == fence.generation() ? &lanes_[last_] : nullptr;
  }
  if (!timeline->TryRefer(fence.generation())) return nullptr;
  last_ = lanes_.size();
  lane_of_.emplace(timeline, last_);
  lanes_.emplace_back(timeline);
  if (watcher_ != nullptr) timeline->Watch(watcher_);
  return &lanes_[last_];
}

bool PendingReleases::IsDone(size_t i) const {
  return lanes_[i].empty() && lanes_[i].timeline()->IsLast();
}

void PendingReleases::DropLane(size_t i) {
  lane_of_.erase(lanes_[i].timeline());
  if (i + 1 != lanes_.size()) {
    lanes_[i] = std::move(lanes_.back());
    lane_of_[lanes_[i].timeline()] = i;
  }
  lanes_.pop_back();
}

void PendingReleases::SetWatcher(const std::shared_ptr<TimelineWatcher>& watcher) {
  for (const FenceLane& lane : lanes_) {
    if (watcher_ != nullptr) lane.timeline()->Unwatch(watcher_);
    if (watcher != nullptr) lane.timeline()->Watch(watcher);
  }
  watcher_ = watcher;
}

bool PendingReleases::MayAdvance() const {
  for (const FenceLane& lane : lanes_) {
    if (!lane.empty() && !lane.timeline()->ended()) return true;
  }
  return false;
}

}  // namespace tenure::client
