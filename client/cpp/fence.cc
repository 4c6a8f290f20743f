#include "tenure/fence.h"

#include <algorithm>

#include "client/cpp/timeline_state.h"

namespace tenure::client {

namespace {

// Those that serve no timeline now. Outlives every static object.
struct Spares {
  std::mutex mutex;
  std::vector<TimelineState*> states;  // guarded by mutex
};

Spares& AllSpares() {
  static Spares& spares = *new Spares;
  return spares;
}

}  // namespace

Timeline::Timeline() : core_(TimelineState::New()) {
  generation_ = TimelineState::Of(core_)->generation();
}

void Timeline::Wake() const { TimelineState::Of(core_)->Wake(); }

void Timeline::End() {
  if (core_ == nullptr) return;
  TimelineState::Of(core_)->End();
  TimelineState::Of(core_)->Drop();
}

TimelineState* TimelineState::New() {
  TimelineState* state = nullptr;
  Spares& spares = AllSpares();
  {
    const std::lock_guard lock(spares.mutex);
    if (!spares.states.empty()) {
      state = spares.states.back();
      spares.states.pop_back();
    }
  }
  if (state == nullptr) state = new TimelineState;
  state->ended_.store(false, std::memory_order_release);
  state->value.store(0, std::memory_order_release);
  state->owners.fetch_add(1);
  return state;
}

bool TimelineState::TryRefer(uint32_t to_generation) {
  uint64_t present = owners.load();
  do {
    if (static_cast<uint32_t>(present >> 32) != to_generation ||
        static_cast<uint32_t>(present) == 0) {
      return false;
    }
  } while (!owners.compare_exchange_weak(present, present + 1));
  return true;
}

void TimelineState::Drop() {
  uint64_t present = owners.load();
  uint64_t next = 0;
  do {
    const bool last = static_cast<uint32_t>(present) == 1;
    next = last ? ((present >> 32) + 1) << 32 : present - 1;
  } while (!owners.compare_exchange_weak(present, next));
  if (static_cast<uint32_t>(next) != 0) return;
  {
    const std::lock_guard lock(mutex_);
    watching_.clear();
    watchers.store(0);
  }
  Spares& spares = AllSpares();
  const std::lock_guard lock(spares.mutex);
  spares.states.push_back(this);
}

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
