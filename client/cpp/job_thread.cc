#include "client/cpp/job_thread.h"

#include <utility>

#include "client/cpp/quiet_thread.h"

namespace tenure::client {

void JobThread::Add(Job job) {
  const bool first = state_ == nullptr;
  if (first) state_ = std::make_shared<State>();
  {
    const std::lock_guard lock(state_->mutex);
    state_->jobs.push_back(std::move(job));
  }
  state_->changed.notify_all();
  if (first) thread_ = StartQuietThread([state = state_] { Run(state); });
}

void JobThread::Finish(Deadline deadline) {
  if (state_ == nullptr) return;
  bool ended = false;
  {
    std::unique_lock lock(state_->mutex);
    state_->finishing = true;
    state_->changed.notify_all();
    ended = state_->changed.wait_until(lock, deadline.at(), [this] { return state_->ended; });
  }
  if (ended) {
    thread_.join();
  } else {
    thread_.detach();
  }
  state_.reset();
}

void JobThread::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (true) {
    state->changed.wait(lock, [&] { return state->finishing || !state->jobs.empty(); });
    if (state->jobs.empty()) break;
    Job job = std::move(state->jobs.front());
    state->jobs.pop_front();
    lock.unlock();
    job();
    job = nullptr;
    lock.lock();
  }
  state->ended = true;
  state->changed.notify_all();
}

}  // namespace tenure::client
