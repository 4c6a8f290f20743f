#include "tests/support/emulated_driver/cuda_address_space.h"

#include <algorithm>
#include <sys/mman.h>

namespace tenure::emulated {
namespace {

void* AsPointer(CUdeviceptr at) { return reinterpret_cast<void*>(at); }

// Address space that nothing can touch; 0 if there is none.
CUdeviceptr TakeAddresses(uint64_t size, uint64_t alignment, CUdeviceptr hint) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hint != 0 && hint % alignment == 0) {
    void* const at = mmap(AsPointer(hint), size, PROT_NONE, kFlags, -1, 0);
    if (at == AsPointer(hint)) return hint;
    if (at != MAP_FAILED) munmap(at, size);
  }
  if (size > UINT64_MAX - alignment) return 0;
  void* const got = mmap(nullptr, size + alignment, PROT_NONE, kFlags, -1, 0);
  if (got == MAP_FAILED) return 0;
  const auto begin = reinterpret_cast<CUdeviceptr>(got);
  const CUdeviceptr at = (begin + alignment - 1) & ~(alignment - 1);
  if (at > begin) munmap(got, at - begin);
  if (begin + alignment > at) munmap(AsPointer(at + size), begin + alignment - at);
  return at;
}

}  // namespace

CUresult AddressSpace::Reserve(uint64_t size, uint64_t alignment, CUdeviceptr hint,
                               CUdeviceptr& at) {
  if (size == 0 || size % kGranularity != 0 || hint % kGranularity != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  at = TakeAddresses(size, std::max(alignment, kGranularity), hint);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const MutexLock lock(mutex_);
  reservations_[at].size = size;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Free(CUdeviceptr at, uint64_t size) {
  const MutexLock lock(mutex_);
  const auto found = reservations_.find(at);
  if (found == reservations_.end() || found->second.size != size ||
      !found->second.mappings.empty()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  reservations_.erase(found);
  munmap(AsPointer(at), size);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Map(CUdeviceptr at, uint64_t size,
                           const std::shared_ptr<Allocation>& allocation) {
  if (size != allocation->size() || at % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  const MutexLock lock(mutex_);
  const auto found = ReservationOf(at);
  if (found == reservations_.end() || found->second.linear_of != nullptr ||
      size > found->second.size - (at - found->first)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Mappings& mappings = reservations_[found->first].mappings;
  const auto next = mappings.lower_bound(at);
  if (next != mappings.end() && next->first < at + size) return CUDA_ERROR_INVALID_VALUE;
  if (next != mappings.begin()) {
    const auto& [before, mapping] = *std::prev(next);
    if (before + mapping.size > at) return CUDA_ERROR_INVALID_VALUE;
  }
  mappings[at] = {size, allocation, {}};
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Unmap(CUdeviceptr at, uint64_t size) {
  std::vector<std::shared_ptr<Allocation>> unmapped;  // ends outside the lock
  const MutexLock lock(mutex_);
  const std::vector<CUdeviceptr> whole = WholeMappings(at, size);
  if (whole.empty()) return CUDA_ERROR_INVALID_VALUE;
  Mappings& mappings = reservations_[ReservationOf(at)->first].mappings;
  for (const CUdeviceptr each : whole) {
    unmapped.push_back(std::move(mappings[each].allocation));
    mappings.erase(each);
  }
  return CUDA_SUCCESS;
}

CUresult AddressSpace::SetAccess(CUdeviceptr at, uint64_t size, size_t gpu,
                                 CUmemAccess_flags flags) {
  const MutexLock lock(mutex_);
  const std::vector<CUdeviceptr> whole = WholeMappings(at, size);
  if (whole.empty()) return CUDA_ERROR_INVALID_VALUE;
  Mappings& mappings = reservations_[ReservationOf(at)->first].mappings;
  for (const CUdeviceptr each : whole) mappings[each].access[gpu] = flags;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::GetAccess(CUdeviceptr at, size_t gpu, CUmemAccess_flags& flags) const {
  const MutexLock lock(mutex_);
  const bool mapped = Walk(at, 1, [&](const Mapping& mapping, uint64_t, uint64_t) {
    flags = mapping.access[gpu];
    return true;
  });
  return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult AddressSpace::AddLinear(Share share, uint64_t size, PrimaryCtx& ctx, CUdeviceptr& at) {
  const uint64_t whole = share.record().size;
  at = TakeAddresses(whole, kGranularity, 0);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  Mapping mapping{size, std::make_shared<Allocation>(0, std::move(share)), {}};
  mapping.access.fill(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const MutexLock lock(mutex_);
  Reservation& reservation = reservations_[at];
  reservation.size = whole;
  reservation.linear_of = &ctx;
  reservation.mappings[at] = std::move(mapping);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::FreeLinear(CUdeviceptr at) {
  Reservation freed;  // ends outside the lock
  const MutexLock lock(mutex_);
  const auto found = reservations_.find(at);
  if (found == reservations_.end() || found->second.linear_of == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  freed = std::move(found->second);
  reservations_.erase(found);
  munmap(AsPointer(at), freed.size);
  return CUDA_SUCCESS;
}

void AddressSpace::FreeLinearOf(const PrimaryCtx& ctx) {
  std::vector<CUdeviceptr> all;
  {
    const MutexLock lock(mutex_);
    for (const auto& [at, reservation] : reservations_) {
      if (reservation.linear_of == &ctx) all.push_back(at);
    }
  }
  for (const CUdeviceptr at : all) FreeLinear(at);
}

std::unique_ptr<AddressFacts> AddressSpace::FactsOf(CUdeviceptr at) const {
  const MutexLock lock(mutex_);
  const auto found = ReservationOf(at);
  if (found == reservations_.end()) return nullptr;
  auto facts = std::make_unique<AddressFacts>();
  facts->reservation = found->first;
  facts->reservation_size = found->second.size;
  facts->ctx = found->second.linear_of;
  Walk(at, 1, [&](const Mapping& mapping, uint64_t, uint64_t) {
    facts->allocation = mapping.allocation;
    return true;
  });
  return facts;
}

bool AddressSpace::Touches(CUdeviceptr at, uint64_t size) const {
  const MutexLock lock(mutex_);
  if (ReservationOf(at) != reservations_.end()) return true;
  const auto next = reservations_.lower_bound(at);
  return next != reservations_.end() && next->first - at < size;
}

bool AddressSpace::Covers(CUdeviceptr at, uint64_t size) const {
  const MutexLock lock(mutex_);
  return Walk(at, size, [](const Mapping&, uint64_t, uint64_t) { return true; });
}

CUresult AddressSpace::Resolve(CUdeviceptr at, uint64_t size, size_t gpu, bool write,
                               std::vector<DevicePiece>& pieces) const {
  const auto needed = write ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_READ;
  const MutexLock lock(mutex_);
  const bool allowed = Walk(at, size, [&](const Mapping& mapping, uint64_t offset, uint64_t part) {
    if (mapping.access[gpu] < needed) return false;
    pieces.push_back({mapping.allocation, mapping.allocation->share.bytes() + offset, part});
    return true;
  });
  return allowed ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

AddressSpace::Reservations::const_iterator AddressSpace::ReservationOf(CUdeviceptr at) const {
  auto found = reservations_.upper_bound(at);
  if (found == reservations_.begin()) return reservations_.end();
  --found;
  return at - found->first < found->second.size ? found : reservations_.end();
}

std::vector<CUdeviceptr> AddressSpace::WholeMappings(CUdeviceptr at, uint64_t size) const {
  const auto found = ReservationOf(at);
  if (found == reservations_.end() || found->second.linear_of != nullptr) return {};
  if (size == 0 || size > found->second.size - (at - found->first)) return {};
  std::vector<CUdeviceptr> whole;
  const CUdeviceptr end = at + size;
  const Mappings& mappings = found->second.mappings;
  for (auto each = mappings.find(at); at < end; ++each) {
    if (each == mappings.end() || each->first != at || each->second.size > end - at) return {};
    whole.push_back(at);
    at += each->second.size;
  }
  return whole;
}

template <typename Visit>
bool AddressSpace::Walk(CUdeviceptr at, uint64_t size, const Visit& visit) const {
  while (size > 0) {
    const auto found = ReservationOf(at);
    if (found == reservations_.end()) return false;
    const Mappings& mappings = found->second.mappings;
    auto each = mappings.upper_bound(at);
    if (each == mappings.begin()) return false;
    --each;
    const uint64_t offset = at - each->first;
    if (offset >= each->second.size) return false;
    const uint64_t part = std::min(size, each->second.size - offset);
    if (!visit(each->second, offset, part)) return false;
    at += part;
    size -= part;
  }
  return true;
}

}  // namespace tenure::emulated
