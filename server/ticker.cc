#include "server/ticker.h"

#include <utility>

namespace tenure {

Ticker::Ticker(Duration interval, std::function<void()> tick)
    : interval_(interval), tick_(std::move(tick)), thread_([this] { Run(); }) {}

Ticker::~Ticker() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyOne();
  thread_.join();
}

void Ticker::Run() {
  MutexLock lock(mutex_);
  while (!stop_) {
    lock.Unlock();
    tick_();
    lock.Lock();
    if (!stop_) stopped_.WaitFor(mutex_, interval_);
  }
}

}  // namespace tenure
