#include "client/cpp/release_queue.h"

#include <signal.h>
#include <utility>

namespace tenure::client {
namespace {

constexpr Duration kAttempt = std::chrono::seconds(1);
constexpr Duration kPause = std::chrono::milliseconds(100);

}  // namespace

ReleaseQueue::~ReleaseQueue() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  stop_.request_stop();
  if (thread_.joinable()) thread_.join();
}

void ReleaseQueue::Add(v1::ReleaseLeaseRequest request) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  requests_.push_back(std::move(request));
  changed_.notify_all();
  if (thread_.joinable()) return;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ReleaseQueue::Run() {
  std::unique_lock lock(mutex_);
  while (!closing_ && session_.Alive().ok()) {
    if (requests_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const v1::ReleaseLeaseRequest request = requests_.front();
    lock.unlock();
    v1::ReleaseLeaseResponse response;
    const absl::Status status =
        rpc_.Call(rpc_.leases(), &v1::LeaseService::Stub::ReleaseLease, request, &response,
                  Deadline(kAttempt), stop_.get_token());
    lock.lock();
    if (EndedWithoutReply(status)) {
      changed_.wait_for(lock, kPause);
    } else {
      requests_.pop_front();
    }
  }
  // The session is over, and with it everything it was granted.
  requests_.clear();
}

}  // namespace tenure::client
