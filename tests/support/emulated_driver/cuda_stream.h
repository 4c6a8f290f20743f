#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "tests/support/emulated_driver/cuda_ctx.h"

namespace tenure::emulated {

// A queue of work that one thread of its own does in order. A CUstream is the address of one.
// Thread-safe.
class Stream {
 public:
  // Null if no thread can be had. `blocking` ones synchronise with the NULL stream.
  static std::shared_ptr<Stream> Start(PrimaryCtx& ctx, bool blocking);

  PrimaryCtx& ctx() const { return ctx_; }
  bool blocking() const { return blocking_; }

  void Enqueue(std::function<void()> work);
  // Waits for all that was enqueued before.
  void Drain();
  bool Idle();
  // Nothing is enqueued from now on; the thread ends after the work that there is.
  void Close();

 private:
  Stream(PrimaryCtx& ctx, bool blocking) : ctx_(ctx), blocking_(blocking) {}
  void Run();

  PrimaryCtx& ctx_;
  const bool blocking_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t enqueued_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t done_ ABSL_GUARDED_BY(mutex_) = 0;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// The work that an event captured: done once, and then for ever. Thread-safe.
class Recording {
 public:
  void Finish(Instant now);
  void Wait();
  bool done() const;
  // REQUIRES: done.
  Instant at() const;

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  Instant at_ ABSL_GUARDED_BY(mutex_);
};

// A CUevent is the address of one. Thread-safe.
class Event {
 public:
  Event(PrimaryCtx& ctx, bool timing) : ctx_(ctx), timing_(timing) {}

  PrimaryCtx& ctx() const { return ctx_; }
  bool timing() const { return timing_; }

  // Captures what the stream holds now, the NULL stream if it is null, in place of what it held
  // before.
  void Record(Stream* stream);
  // Null before the first Record.
  std::shared_ptr<Recording> last() const;

 private:
  PrimaryCtx& ctx_;
  const bool timing_;
  mutable Mutex mutex_;
  std::shared_ptr<Recording> last_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure::emulated
