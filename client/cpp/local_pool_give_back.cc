// Which segments leave, and when.

#include <algorithm>
#include <functional>

#include "client/cpp/local_pool.h"
#include "client/cpp/pool_guard.h"
#include "core/base/check.h"

namespace tenure::client {

void LocalPool::Sweep(Instant now) {
  Guard guard(*this);
  DrainAll();
  for (Part& part : parts_) {
    part.peak.Pass(now, part.used);
    if (!part.line.empty()) continue;
    const uint64_t kept = closed_ ? 0 : part.peak.peak();
    if (part.held > kept) TakeOut(part, (part.held - kept) / options_.segment_bytes);
  }
  if (closed_) {
    TakeOutSlots(UINT64_MAX);
  } else if (valid_.load(std::memory_order_relaxed) && shelves_.held() != 0) {
    shelves_.Sweep(now, Defer().buffers);
  }
  LetGo();
}

uint64_t LocalPool::GiveBack(uint64_t bytes) {
  if (forked()) return 0;
  Guard guard(*this);
  DrainAll();
  const uint64_t segment = options_.segment_bytes;
  uint64_t left = bytes / segment + (bytes % segment == 0 ? 0 : 1);
  uint64_t given = 0;
  for (Part& part : parts_) {
    const uint64_t of_part = TakeOut(part, left);
    given += of_part;
    left -= of_part / segment;
  }
  if (given < bytes) given += TakeOutSlots(bytes - given);
  return given;
}

uint64_t LocalPool::TakeOutAll() {
  uint64_t bytes = 0;
  for (Part& part : parts_) bytes += TakeOut(part, UINT64_MAX);
  return bytes + TakeOutSlots(UINT64_MAX);
}

uint64_t LocalPool::TakeOutSlots(uint64_t most) {
  if (!valid_.load(std::memory_order_relaxed) || shelves_.held() == shelves_.used()) return 0;
  return shelves_.TakeOut(most, Defer().buffers);
}

uint64_t LocalPool::TakeOut(Part& part, uint64_t most) {
  const uint64_t segment = options_.segment_bytes;
  if (!valid_.load(std::memory_order_relaxed) || most == 0) return 0;
  std::vector<uint64_t> free;
  part.allocator.ForEachFree(tenure::Bytes(segment), [&](tenure::Range hole) {
    uint64_t at = (hole.begin().count() + segment - 1) / segment * segment;
    for (; at + segment <= hole.end().count(); at += segment) free.push_back(at);
  });
  std::sort(free.begin(), free.end(), std::greater());
  if (free.size() > most) free.resize(most);
  for (const uint64_t at : free) {
    part.allocator.Remove(tenure::Range(tenure::Bytes(at), tenure::Bytes(at + segment)));
    segments_.erase(at);
    Defer().leaving.push_back(at);
  }
  part.held -= free.size() * segment;
  return free.size() * segment;
}

void LocalPool::Validate() const {
  const std::lock_guard lock(lock_);
  uint64_t held = 0;
  for (const Part& part : parts_) {
    part.allocator.Validate();
    const OffsetAllocator::Usage usage = part.allocator.usage();
    TENURE_CHECK(usage.used.count() == part.used);
    TENURE_CHECK((usage.used + usage.free).count() == part.held);
    held += part.held;
  }
  TENURE_CHECK(held == segments_.size() * options_.segment_bytes);
  shelves_.Validate();
  size_t waiting = 0;
  for (const Part& part : parts_) waiting += part.line.size();
  TENURE_CHECK(waiting == waiting_);
}

}  // namespace tenure::client
