#include "client/cpp/fork_guard.h"

#include <mutex>
#include <pthread.h>

namespace tenure::client {

ForkGuard::ForkGuard() {
  static std::once_flag registered;
  std::call_once(registered, [] {
    pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
  });
  generation_ = forks.load(std::memory_order_relaxed);
}

}  // namespace tenure::client
