#include "tests/support/emulated_driver/cuda_pinned_memory.h"

#include <fstream>
#include <inttypes.h>
#include <stdio.h>
#include <string>
#include <sys/mman.h>
#include <vector>

namespace tenure::emulated {
namespace {

// Whether the kernel could pin the range: mapped without a gap, and with the access asked for.
bool Pinnable(const std::byte* at, size_t size, bool read_only) {
  auto next = reinterpret_cast<uintptr_t>(at);
  const uintptr_t end = next + size;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; next < end && std::getline(maps, line);) {
    uintptr_t begin = 0;
    uintptr_t stop = 0;
    char access[5] = {};
    if (sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &stop, access) != 3) continue;
    if (stop <= next) continue;
    if (begin > next || access[0] != 'r' || (!read_only && access[1] != 'w')) return false;
    next = stop;
  }
  return next >= end;
}

}  // namespace

CUresult PinnedMemory::Allocate(size_t size, PrimaryCtx& ctx, void*& at) {
  void* const got = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  at = got;
  const MutexLock lock(mutex_);
  blocks_[static_cast<const std::byte*>(got)] = {size, true, &ctx};
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::Free(const void* at) { return Remove(at, true, CUDA_ERROR_INVALID_VALUE); }

CUresult PinnedMemory::Register(const void* at, size_t size, bool read_only, PrimaryCtx& ctx) {
  const auto* const begin = static_cast<const std::byte*>(at);
  const MutexLock lock(mutex_);
  if (Find(begin, size) != Kind::kPageable) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (!Pinnable(begin, size, read_only)) return CUDA_ERROR_INVALID_VALUE;
  blocks_[begin] = {size, false, &ctx};
  return CUDA_SUCCESS;
}

CUresult PinnedMemory::Unregister(const void* at) {
  return Remove(at, false, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

CUresult PinnedMemory::Remove(const void* at, bool ours, CUresult not_found) {
  const MutexLock lock(mutex_);
  const auto found = blocks_.find(static_cast<const std::byte*>(at));
  if (found == blocks_.end() || found->second.ours != ours) return not_found;
  if (ours) munmap(const_cast<std::byte*>(found->first), found->second.size);
  blocks_.erase(found);
  return CUDA_SUCCESS;
}

void PinnedMemory::Forget(const PrimaryCtx& ctx) {
  const MutexLock lock(mutex_);
  std::erase_if(blocks_, [&](const auto& block) {
    if (block.second.ctx != &ctx) return false;
    if (block.second.ours) munmap(const_cast<std::byte*>(block.first), block.second.size);
    return true;
  });
}

PinnedMemory::Kind PinnedMemory::KindOf(const void* at, size_t size) const {
  const MutexLock lock(mutex_);
  return Find(static_cast<const std::byte*>(at), size);
}

PinnedMemory::Kind PinnedMemory::Find(const std::byte* at, size_t size) const {
  const auto block = BlockOf(at);
  if (block != blocks_.end()) {
    const size_t left = block->second.size - static_cast<size_t>(at - block->first);
    return size <= left ? Kind::kPinned : Kind::kMixed;
  }
  const auto next = blocks_.lower_bound(at);
  const bool reaches = next != blocks_.end() && static_cast<size_t>(next->first - at) < size;
  return reaches ? Kind::kMixed : Kind::kPageable;
}

PrimaryCtx* PinnedMemory::CtxOf(const void* at) const {
  const MutexLock lock(mutex_);
  const auto block = BlockOf(static_cast<const std::byte*>(at));
  return block == blocks_.end() ? nullptr : block->second.ctx;
}

std::map<const std::byte*, PinnedMemory::Block>::const_iterator PinnedMemory::BlockOf(
    const std::byte* at) const {
  auto block = blocks_.upper_bound(at);
  if (block == blocks_.begin()) return blocks_.end();
  --block;
  const bool inside = static_cast<size_t>(at - block->first) < block->second.size;
  return inside ? block : blocks_.end();
}

}  // namespace tenure::emulated
