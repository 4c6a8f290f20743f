#pragma once

#include <functional>
#include <thread>

#include "core/base/clock.h"
#include "core/base/mutex.h"

namespace tenure {

// Calls a function again and again on a thread of its own, from construction to destruction.
class Ticker {
 public:
  Ticker(Duration interval, std::function<void()> tick);
  // Waits for a running call to end.
  ~Ticker();

 private:
  void Run();

  const Duration interval_;
  const std::function<void()> tick_;

  Mutex mutex_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;

  std::thread thread_;
};

}  // namespace tenure
