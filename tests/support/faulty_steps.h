#pragma once

#include "core/base/mutex.h"

namespace tenure {

// Where whoever passes can be made to wait. Thread-safe.
class Turnstile {
 public:
  // Closes or opens the gate.
  void Hold(bool hold) {
    const MutexLock lock(mutex_);
    closed_ = hold;
    changed_.NotifyAll();
  }

  // Returns once the gate is open.
  void Pass() {
    const MutexLock lock(mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (closed_) changed_.Wait(mutex_);
    --waiting_;
  }

  // Returns true once somebody waits at the closed gate, false if nobody comes for long.
  [[nodiscard]] bool AwaitArrival() {
    const MutexLock lock(mutex_);
    for (int i = 0; i < 1000 && waiting_ == 0; ++i) {
      changed_.WaitFor(mutex_, std::chrono::milliseconds(10));
    }
    return closed_ && waiting_ > 0;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Counts the steps of an undertaking, and lets one of them go wrong. Thread-safe.
class FaultySteps {
 public:
  // Counts from one again. The `k`-th step fails; 0: none.
  void Fail(int k) { Arm(k, 0); }
  // Likewise, but the step waits at the gate and then does what it should.
  void Hold(int k) {
    gate_.Hold(true);
    Arm(0, k);
  }

  // The step that comes next fails. Counts on.
  void FailNext() {
    const MutexLock lock(mutex_);
    failing_ = taken_ + 1;
  }

  // Steps since Fail or Hold.
  int taken() const {
    const MutexLock lock(mutex_);
    return taken_;
  }

  // Of the step that is held.
  Turnstile& gate() { return gate_; }

  // To be called at each step. True if it must fail.
  bool Fails() {
    bool held = false;
    bool fails = false;
    {
      const MutexLock lock(mutex_);
      ++taken_;
      held = taken_ == held_;
      fails = taken_ == failing_;
    }
    if (held) gate_.Pass();
    return fails;
  }

 private:
  void Arm(int failing, int held) {
    const MutexLock lock(mutex_);
    taken_ = 0;
    failing_ = failing;
    held_ = held;
  }

  Turnstile gate_;
  mutable Mutex mutex_;
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
  int failing_ ABSL_GUARDED_BY(mutex_) = 0;
  int held_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenure
