#include "tests/gpu/trial/latency_log.h"

#include <algorithm>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "core/base/unique_fd.h"

namespace tenure::trial {

LatencyLog::LatencyLog(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  void* mapped = MAP_FAILED;
  if (fd.valid() && ftruncate(fd.get(), sizeof(Pages)) == 0) {
    mapped = mmap(nullptr, sizeof(Pages), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  }
  if (mapped == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  pages_ = static_cast<Pages*>(mapped);
}

LatencyLog::~LatencyLog() { munmap(pages_, sizeof(Pages)); }

void LatencyLog::Add(Instant began, Duration took) {
  const uint64_t at = pages_->count.load(std::memory_order_relaxed);
  if (at == kMost) return;
  pages_->entries[at] = {.began = began.time_since_epoch().count(), .took = took.count()};
  pages_->count.store(at + 1, std::memory_order_release);
}

std::span<const LatencyLog::Entry> LatencyLog::Entries() const {
  return {pages_->entries, pages_->count.load(std::memory_order_acquire)};
}

std::vector<Duration> LatencyLog::Within(Instant from, Instant to) const {
  const int64_t begin = from.time_since_epoch().count();
  const int64_t end = to.time_since_epoch().count();
  std::span<const Entry> entries = Entries();
  while (entries.empty() || entries.back().began < end) {
    std::this_thread::yield();
    entries = Entries();
  }
  std::vector<Duration> within;
  // One ran after another, so their ends are in order.
  for (auto entry = std::ranges::partition_point(
           entries, [&](const Entry& each) { return each.began + each.took <= begin; });
       entry->began < end; ++entry) {
    within.emplace_back(entry->took);
  }
  return within;
}

}  // namespace tenure::trial
