#pragma once

#include <string>
#include <tenure/v1/map.pb.h>

#include "core/base/clock.h"
#include "core/store/store.h"

namespace tenure {

// Takes memory maps: what stands in the stores, each copied under one short hold of its mutex and
// put into words afterwards. Thread-safe.
class MapMaker {
 public:
  // All references outlive it; the daemon counts as started now.
  MapMaker(const Store& store, const Clock& clock, std::string boot_id);

  v1::MemoryMap Take() const;

 private:
  const Store& store_;
  const Clock& clock_;
  const std::string boot_id_;
  const Instant started_;
};

}  // namespace tenure
