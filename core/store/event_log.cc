#include "core/store/event_log.h"

#include <algorithm>

namespace tenure {
namespace {

constexpr std::array<const char*, kEventKinds> kNames = {
    "SESSION_OPENED",  "SESSION_ENDED",      "LOADED",        "LOAD_FAILED",
    "OFFLINE",         "RECLAIMED",          "LEASE_GRANTED", "LEASE_RELEASED",
    "LEASE_EXPIRED",   "LEASE_LOST",         "RECALLED",      "RECALL_UNANSWERED",
    "POOL_GREW",       "POOL_SHRANK",        "POOL_EXPIRED",  "POOL_LOST",
    "BUFFERS_REFUSED", "SEGMENTS_DESTROYED", "DEVICE_LOST"};

}  // namespace

std::string_view EventKindName(EventKind kind) { return kNames.at(static_cast<size_t>(kind)); }

void EventLog::Record(Event event) {
  const MutexLock lock(mutex_);
  event.sequence = ++last_;
  events_.push_back(std::move(event));
  if (events_.size() > kKept) events_.pop_front();
  recorded_.NotifyAll();
}

std::vector<Event> EventLog::After(uint64_t sequence, size_t most) const {
  const MutexLock lock(mutex_);
  const uint64_t dropped = last_ - events_.size();
  const uint64_t first = std::clamp(sequence, dropped, last_) - dropped;
  const auto begin = events_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto count =
      std::min<std::ptrdiff_t>(events_.end() - begin, static_cast<std::ptrdiff_t>(most));
  return {begin, begin + count};
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
