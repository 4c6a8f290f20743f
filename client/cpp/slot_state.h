#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "client/cpp/held_fences.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/pool_block.h"

namespace tenure::client {

class PlanState;

// What is behind a PlannedSlot. Storages and buffers are named by their places in the plan.
// Thread-compatible.
struct SlotState {
  struct StorageUse {
    uint32_t acquired = 0;  // views that were acquired and not released
    uint32_t released = 0;  // the buffer that was released last
    HeldFences readers;     // that may not have ended
  };
  // Memory of the pool in place of a storage's.
  struct FallBack {
    PoolBlock block;
    uint64_t alignment = 0;
    HeldFences readers;
  };

  std::shared_ptr<LocalPool> pool;
  std::shared_ptr<const PlanState> plan;
  PoolBlock memory;
  bool fall_back = false;
  std::vector<uint32_t> acquired;  // by buffer: how often it has to be released
  std::vector<StorageUse> storages;
  std::vector<uint32_t> taken;          // storages whose bytes may be in use, by offset; disjoint
  std::map<uint32_t, FallBack> fallen;  // by storage
  std::vector<uint32_t> refused;        // buffers whose last release was
};

}  // namespace tenure::client
