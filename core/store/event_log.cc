#include "core/store/event_log.h"

#include <algorithm>

namespace tenure {
namespace {

constexpr std::array<const char*, kEventKinds> kNames = {
    "SESSION_OPENED",  "SESSION_ENDED",      "LOADED",        "LOAD_FAILED",
    "OFFLINE",         "RECLAIMED",          "LEASE_GRANTED", "LEASE_RELEASED",
    "LEASE_EXPIRED",   "LEASE_LOST",         "RECALLED",      "RECALL_UNANSWERED",
    "POOL_GREW",       "POOL_SHRANK",        "POOL_EXPIRED",  "POOL_LOST",
    "BUFFERS_REFUSED", "SEGMENTS_DESTROYED", "DEVICE_LOST",   "CORDONED",
    "UNCORDONED"};

}  // namespace

std::string_view EventKindName(EventKind kind) { return kNames.at(static_cast<size_t>(kind)); }

void EventLog::Record(Event event) {
  const MutexLock lock(mutex_);
  event.sequence = ++last_;
  ring_[last_ % kKept] = std::move(event);
  recorded_.NotifyAll();
}

std::vector<Event> EventLog::After(uint64_t sequence, size_t most) const {
  const MutexLock lock(mutex_);
  const uint64_t dropped = last_ - std::min<uint64_t>(last_, kKept);
  const uint64_t after = std::clamp(sequence, dropped, last_);
  const uint64_t until = after + std::min<uint64_t>(last_ - after, most);
  std::vector<Event> events;
  events.reserve(until - after);
  for (uint64_t number = after + 1; number <= until; ++number) {
    events.push_back(ring_[number % kKept]);
  }
  return events;
}

void EventLog::AwaitAfter(uint64_t sequence, Duration span) const {
  const MutexLock lock(mutex_);
  if (last_ <= sequence) recorded_.WaitFor(mutex_, span);
}

uint64_t EventLog::last() const {
  const MutexLock lock(mutex_);
  return last_;
}

}  // namespace tenure
