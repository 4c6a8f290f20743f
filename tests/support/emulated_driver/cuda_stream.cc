#include "tests/support/emulated_driver/cuda_stream.h"

#include <pthread.h>
#include <signal.h>
#include <system_error>
#include <thread>
#include <utility>

namespace tenure::emulated {

std::shared_ptr<Stream> Stream::Start(PrimaryCtx& ctx, bool blocking) {
  const std::shared_ptr<Stream> stream(new Stream(ctx, blocking));
  // The program's signals are not for the driver's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = true;
  try {
    std::thread([stream] { stream->Run(); }).detach();
  } catch (const std::system_error&) {
    started = false;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) return nullptr;
  ctx.Add(stream);
  return stream;
}

void Stream::Enqueue(std::function<void()> work) {
  const MutexLock lock(mutex_);
  queue_.push_back(std::move(work));
  ++enqueued_;
  changed_.NotifyAll();
}

void Stream::Drain() {
  const MutexLock lock(mutex_);
  const uint64_t until = enqueued_;
  while (done_ < until) changed_.Wait(mutex_);
}

bool Stream::Idle() {
  const MutexLock lock(mutex_);
  return done_ == enqueued_;
}

void Stream::Close() {
  const MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

void Stream::Run() {
  MutexLock lock(mutex_);
  while (true) {
    while (queue_.empty() && !closed_) changed_.Wait(mutex_);
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.Unlock();
    work();
    work = nullptr;  // gives back what it holds before anybody learns that it is done
    lock.Lock();
    ++done_;
    changed_.NotifyAll();
  }
}

void Recording::Finish(Instant now) {
  const MutexLock lock(mutex_);
  done_ = true;
  at_ = now;
  changed_.NotifyAll();
}

void Recording::Wait() {
  const MutexLock lock(mutex_);
  while (!done_) changed_.Wait(mutex_);
}

bool Recording::done() const {
  const MutexLock lock(mutex_);
  return done_;
}

Instant Recording::at() const {
  const MutexLock lock(mutex_);
  return at_;
}

void Event::Record(Stream* stream) {
  const auto recording = std::make_shared<Recording>();
  {
    const MutexLock lock(mutex_);
    last_ = recording;
  }
  const auto finish = [recording] { recording->Finish(SteadyClock().Now()); };
  if (stream != nullptr) {
    stream->Enqueue(finish);
  } else {
    ctx_.SynchronizeBlocking();
    finish();
  }
}

std::shared_ptr<Recording> Event::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

}  // namespace tenure::emulated
