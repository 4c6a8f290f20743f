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

void ReleaseQueue::Add(Release release) {
  const std::lock_guard lock(mutex_);
  if (closing_) return;
  releases_.push_back(std::move(release));
  changed_.notify_all();
  if (thread_.joinable()) return;
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ReleaseQueue::Await(Deadline deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline.at(), [this] { return releases_.empty() || closing_; });
}

template <typename Request, typename Reply>
absl::Status ReleaseQueue::Call(grpc::Status (v1::LeaseService::Stub::*method)(grpc::ClientContext*,
                                                                               const Request&,
                                                                               Reply*),
                                const Request& request) {
  Reply reply;
  return rpc_.Call(rpc_.leases(), method, request, &reply, Deadline(kAttempt), stop_.get_token());
}

absl::Status ReleaseQueue::Attempt(const v1::ReleaseLeaseRequest& request) {
  return Call(&v1::LeaseService::Stub::ReleaseLease, request);
}

absl::Status ReleaseQueue::Attempt(const v1::ReleaseBuffersRequest& request) {
  return Call(&v1::LeaseService::Stub::ReleaseBuffers, request);
}

absl::Status ReleaseQueue::Attempt(const v1::ShrinkPoolRequest& request) {
  return Call(&v1::LeaseService::Stub::ShrinkPool, request);
}

void ReleaseQueue::Run() {
  std::unique_lock lock(mutex_);
  while (!closing_ && session_.Alive().ok()) {
    if (releases_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Release release = releases_.front();
    lock.unlock();
    const absl::Status status =
        std::visit([this](const auto& request) { return Attempt(request); }, release);
    lock.lock();
    if (EndedWithoutReply(status)) {
      changed_.wait_for(lock, kPause);
    } else {
      releases_.pop_front();
      if (releases_.empty()) changed_.notify_all();
    }
  }
  // The session is over, and with it everything it was granted.
  releases_.clear();
  changed_.notify_all();
}

}  // namespace tenure::client
