#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/mutex.h"
#include "tests/support/emulated_driver/cuda_types.h"
#include "tests/support/emulated_driver/state_folder.h"

namespace tenure::emulated {

// What the program holds by address. Thread-safe.
template <typename Object>
class HandleTable {
 public:
  Object* Add(std::shared_ptr<Object> object) {
    const MutexLock lock(mutex_);
    Object* const handle = object.get();
    objects_.emplace(handle, std::move(object));
    return handle;
  }
  // Null for what is no handle.
  std::shared_ptr<Object> Find(const void* handle) const {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }
  std::shared_ptr<Object> Remove(const void* handle) {
    const MutexLock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }
  std::vector<std::shared_ptr<Object>> All() const {
    const MutexLock lock(mutex_);
    std::vector<std::shared_ptr<Object>> all;
    for (const auto& [handle, object] : objects_) all.push_back(object);
    return all;
  }

 private:
  mutable Mutex mutex_;
  std::map<const void*, std::shared_ptr<Object>> objects_ ABSL_GUARDED_BY(mutex_);
};

// Device memory that a handle stands for; mappings hold it too.
struct Allocation {
  Allocation(CUmemGenericAllocationHandle handle_value, Share memory_share)
      : handle(handle_value), share(std::move(memory_share)) {}

  const CUmemGenericAllocationHandle handle;  // 0 for cuMemAlloc's, which has none
  const Share share;

  uint64_t size() const { return share.record().size; }
  size_t gpu() const { return share.record().gpu; }
};

// The allocation handles of this process. Values are never used twice. Thread-safe.
class AllocationHandles {
 public:
  // With one reference.
  CUmemGenericAllocationHandle Add(Share share);
  // Null for what is no handle or was released.
  std::shared_ptr<Allocation> Find(CUmemGenericAllocationHandle handle) const;
  // One reference more; the handle is valid again if it was released while mapped.
  void Retain(const std::shared_ptr<Allocation>& allocation);
  // One reference less. False for what is no handle, or no more since another thread released it.
  bool Release(CUmemGenericAllocationHandle handle);

 private:
  struct Entry {
    std::shared_ptr<Allocation> allocation;
    int references = 0;
  };
  mutable Mutex mutex_;
  CUmemGenericAllocationHandle next_ ABSL_GUARDED_BY(mutex_) = 0x7e0001;
  std::map<CUmemGenericAllocationHandle, Entry> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure::emulated
