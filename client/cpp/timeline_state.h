#pragma once

#include <atomic>
#include <cstdint>
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

// A Timeline and what is behind it. It serves one timeline after the other, a generation each, and
// is never freed, so that a stale fence can always be told by its generation. A generation lasts
// for as long as its Timeline or anything else refers to it; `value` is its last one then.
// Thread-safe.
class TimelineState : public TimelineCore {
 public:
  static TimelineState* Of(TimelineCore* core) { return static_cast<TimelineState*>(core); }
  // Of a new generation, at 0, with one reference.
  static TimelineState* New();

  uint32_t generation() const { return static_cast<uint32_t>(owners.load() >> 32); }
  // True if the Timeline of that generation is there.
  bool IsThere(uint32_t of_generation) const {
    return generation() == of_generation && !ended_.load(std::memory_order_acquire);
  }
  // True if that generation has come to `at`, as far as is still known.
  bool Reached(uint64_t at, uint32_t of_generation) const {
    // A value of a later generation is seen only together with that generation.
    return value.load(std::memory_order_acquire) >= at && generation() == of_generation;
  }
  // True if the Timeline is gone: `value` stays what it is. REQUIRES: the caller refers to it.
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  // Adds a reference if it is still the generation.
  bool TryRefer(uint32_t to_generation);
  void Drop();
  // Nobody but the caller refers to it.
  bool IsLast() const { return static_cast<uint32_t>(owners.load()) == 1; }

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
