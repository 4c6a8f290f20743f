#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "core/base/mutex.h"
#include "tests/support/emulated_driver/cuda_ctx.h"
#include "tests/support/emulated_driver/cuda_types.h"

namespace tenure::emulated {

// The page-locked host memory of this process. Thread-safe.
class PinnedMemory {
 public:
  // Memory of our own.
  CUresult Allocate(size_t size, PrimaryCtx& ctx, void*& at);
  CUresult Free(const void* at);
  // The program's memory: INVALID_VALUE unless all of it is mapped, and writable if `read_only` is
  // not set; HOST_MEMORY_ALREADY_REGISTERED if a part is pinned.
  CUresult Register(const void* at, size_t size, bool read_only, PrimaryCtx& ctx);
  CUresult Unregister(const void* at);
  // Frees or unregisters what was pinned in a context.
  void Forget(const PrimaryCtx& ctx);

  // Mixed is what lies in one pinned block only in part: no copy takes it.
  enum class Kind { kPinned, kPageable, kMixed };
  Kind KindOf(const void* at, size_t size) const;
  // The context in which the byte was pinned; null if it was not.
  PrimaryCtx* CtxOf(const void* at) const;

 private:
  struct Block {
    size_t size = 0;
    bool ours = false;
    PrimaryCtx* ctx = nullptr;
  };
  CUresult Remove(const void* at, bool ours, CUresult not_found);
  Kind Find(const std::byte* at, size_t size) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::map<const std::byte*, Block>::const_iterator BlockOf(const std::byte* at) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  std::map<const std::byte*, Block> blocks_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure::emulated
