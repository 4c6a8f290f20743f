#include "tenure/fence.h"

#include <algorithm>

#include "client/cpp/timeline_state.h"

namespace tenure::client {

Timeline::Timeline() : core_(new TimelineState) {}

void Timeline::Wake() const { TimelineState::Of(core_)->Wake(); }

void Timeline::End() {
  if (core_ == nullptr) return;
  TimelineState::Of(core_)->End();
  TimelineState::Of(core_)->Drop();
}

void Fence::Destroy(TimelineCore* timeline) { delete TimelineState::Of(timeline); }

void TimelineState::Watch(const std::weak_ptr<TimelineWatcher>& watcher) {
  const std::lock_guard lock(mutex_);
  watching_.push_back(watcher);
  watchers.fetch_add(1);
}

void TimelineState::Unwatch(const std::weak_ptr<TimelineWatcher>& watcher) {
  const std::lock_guard lock(mutex_);
  const auto is_it = [&watcher](const std::weak_ptr<TimelineWatcher>& other) {
    return !watcher.owner_before(other) && !other.owner_before(watcher);
  };
  const auto found = std::find_if(watching_.begin(), watching_.end(), is_it);
  if (found == watching_.end()) return;
  watching_.erase(found);
  watchers.fetch_sub(1);
}

void TimelineState::Wake() {
  std::vector<std::weak_ptr<TimelineWatcher>> watching;
  {
    const std::lock_guard lock(mutex_);
    watching = watching_;
  }
  for (const std::weak_ptr<TimelineWatcher>& weak : watching) {
    if (const std::shared_ptr<TimelineWatcher> watcher = weak.lock()) watcher->OnAdvance();
  }
}

void TimelineState::End() {
  ended_.store(true);
  if (watchers.load() != 0) Wake();
}

}  // namespace tenure::client
