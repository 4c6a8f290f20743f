#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "tenure/fence.h"

namespace tenure::client {

// Who has to be told when a timeline advances.
class TimelineWatcher {
 public:
  virtual ~TimelineWatcher() = default;
  // A timeline that is watched has advanced, or it has ended. Called in the thread that advanced
  // it, with no lock held.
  virtual void OnAdvance() = 0;
};

// A Timeline and what is behind it, alive for as long as the Timeline, a fence or a pool refers to
// it. Thread-safe.
class TimelineState : public TimelineCore {
 public:
  static TimelineState* Of(TimelineCore* core) { return static_cast<TimelineState*>(core); }

  bool Reached(uint64_t at) const { return value.load(std::memory_order_acquire) >= at; }
  // True if the Timeline is gone: `value` stays what it is.
  bool ended() const { return ended_.load(); }

  void Refer() { references.fetch_add(1, std::memory_order_relaxed); }
  // The caller's reference is gone, and this object with the last one.
  void Drop() {
    if (references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  // From its return on `watcher` is told of every advance whose value is not seen yet by a load
  // that follows. A watcher that is gone is left out.
  void Watch(const std::weak_ptr<TimelineWatcher>& watcher);
  // Takes one such call back.
  void Unwatch(const std::weak_ptr<TimelineWatcher>& watcher);
  void Wake();

  // The Timeline is gone.
  void End();

 private:
  std::atomic<bool> ended_ = false;
  std::mutex mutex_;
  std::vector<std::weak_ptr<TimelineWatcher>> watching_;  // guarded by mutex_
};

}  // namespace tenure::client
