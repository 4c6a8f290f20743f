#include "client/cpp/fork_guard.h"

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace tenure::client {
namespace {

// How often this process's line of ancestors has forked since the library was loaded.
std::atomic<uint64_t> generation = 0;

}  // namespace

ForkGuard::ForkGuard() {
  static std::once_flag registered;
  std::call_once(registered, [] {
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });
  });
  generation_ = generation.load(std::memory_order_relaxed);
}

bool ForkGuard::forked() const { return generation.load(std::memory_order_relaxed) != generation_; }

}  // namespace tenure::client
