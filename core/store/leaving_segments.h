#pragma once

#include <optional>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/units.h"
#include "core/device/segment.h"

namespace tenure {

// The Segments of one store that go back to the backend, which may take long: one thread destroys
// them while the store's mutex is free. Thread-compatible, under that mutex.
class LeavingSegments {
 public:
  void Add(std::vector<Segment> segments);

  // Ends the waiting; what has been added is still destroyed.
  void Close();

  // Waits for Segments and destroys all that are there; answers how many bytes. nullopt once closed
  // and empty.
  std::optional<Bytes> DestroyNext(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  CondVar changed_;
  std::vector<Segment> segments_;
  bool closed_ = false;
};

}  // namespace tenure
