#include "tests/support/emulated_driver/cuda_handles.h"

namespace tenure::emulated {

CUmemGenericAllocationHandle AllocationHandles::Add(Share share) {
  const MutexLock lock(mutex_);
  const CUmemGenericAllocationHandle handle = next_++;
  entries_[handle] = {std::make_shared<Allocation>(handle, std::move(share)), 1};
  return handle;
}

std::shared_ptr<Allocation> AllocationHandles::Find(CUmemGenericAllocationHandle handle) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(handle);
  return found == entries_.end() ? nullptr : found->second.allocation;
}

void AllocationHandles::Retain(const std::shared_ptr<Allocation>& allocation) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[allocation->handle];
  entry.allocation = allocation;
  ++entry.references;
}

bool AllocationHandles::Release(CUmemGenericAllocationHandle handle) {
  Entry last;  // ends outside the lock: memory may go with it
  const MutexLock lock(mutex_);
  const auto found = entries_.find(handle);
  if (found == entries_.end()) return false;
  if (--found->second.references == 0) {
    last = std::move(found->second);
    entries_.erase(found);
  }
  return true;
}

}  // namespace tenure::emulated
