#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "client/cpp/deadline.h"

namespace tenure::client {

// Does jobs in the order in which they were added, in a thread of its own that the first one
// starts. A job may hang for ever: the thread is left behind then, with all that waits behind it,
// and goes on if the job ever ends. So a job must own, or share, everything that it touches. It and
// what it owns are destroyed in that thread. Thread-compatible.
class JobThread {
 public:
  using Job = std::function<void()>;

  JobThread() = default;
  JobThread(const JobThread&) = delete;
  JobThread& operator=(const JobThread&) = delete;
  // Waits for nothing.
  ~JobThread() { Finish(Deadline(Duration(0))); }

  // REQUIRES: not finished.
  void Add(Job job);
  // Ends the thread once all jobs are done, and waits for that until the deadline.
  void Finish(Deadline deadline);

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<Job> jobs;    // guarded by mutex
    bool finishing = false;  // guarded by mutex
    bool ended = false;      // guarded by mutex
  };

  static void Run(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;  // null before the first job, and once finished
  std::thread thread_;
};

}  // namespace tenure::client
