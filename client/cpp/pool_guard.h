#pragma once

#include <utility>

#include "client/cpp/local_pool.h"

namespace tenure::client {

// Thread-compatible; also a lock for a condition variable.
class LocalPool::Guard {
 public:
  explicit Guard(LocalPool& pool) : pool_(pool) { pool_.lock_.lock(); }
  ~Guard() { unlock(); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  void lock() { pool_.lock_.lock(); }
  void unlock() {
    if (!pool_.is_deferred_) {
      pool_.lock_.unlock();
    } else {
      UnlockAndCall();
    }
  }

 private:
  void UnlockAndCall() {
    // The pool may end with this.
    Deferred deferred = std::exchange(pool_.deferred_, {});
    const std::shared_ptr<SegmentSource> source = pool_.source_;
    pool_.is_deferred_ = false;
    pool_.lock_.unlock();
    for (std::stop_source& stop : deferred.stops) stop.request_stop();
    if (!deferred.leaving.empty()) source->Shrink(std::move(deferred.leaving));
    if (!deferred.buffers.empty()) source->ReleaseBuffers(deferred.buffers);
  }

  LocalPool& pool_;
};

}  // namespace tenure::client
