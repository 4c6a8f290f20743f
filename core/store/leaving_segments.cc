#include "core/store/leaving_segments.h"

#include <iterator>
#include <utility>

namespace tenure {

void LeavingSegments::Add(std::vector<Segment> segments) {
  if (segments.empty()) return;
  std::move(segments.begin(), segments.end(), std::back_inserter(segments_));
  changed_.NotifyAll();
}

void LeavingSegments::Close() {
  closed_ = true;
  changed_.NotifyAll();
}

std::optional<Bytes> LeavingSegments::DestroyNext(Mutex& mutex) {
  while (segments_.empty() && !closed_) changed_.Wait(mutex);
  if (segments_.empty()) return std::nullopt;
  std::vector<Segment> batch = std::exchange(segments_, {});
  mutex.Unlock();
  Bytes destroyed;
  for (const Segment& segment : batch) destroyed += segment.size();
  batch.clear();
  mutex.Lock();
  return destroyed;
}

}  // namespace tenure
