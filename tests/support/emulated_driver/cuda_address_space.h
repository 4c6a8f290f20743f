#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "core/base/mutex.h"
#include "tests/support/emulated_driver/cuda_ctx.h"
#include "tests/support/emulated_driver/cuda_handles.h"
#include "tests/support/emulated_driver/cuda_types.h"

namespace tenure::emulated {

inline constexpr uint64_t kGranularity = uint64_t{2} << 20;

// A piece of device memory as the driver itself reaches it; lives as long as `allocation`.
struct DevicePiece {
  std::shared_ptr<Allocation> allocation;
  std::byte* bytes;
  uint64_t size;
};

// What is known of one device address.
struct AddressFacts {
  CUdeviceptr reservation = 0;
  uint64_t reservation_size = 0;
  std::shared_ptr<Allocation> allocation;  // null where nothing is mapped
  PrimaryCtx* ctx = nullptr;               // of cuMemAlloc's memory
};

// The device addresses of this process: reservations, what is mapped into them, and who may access
// it. A reservation is address space that nothing can touch, so that a stray access of the CPU
// faults. Every mapping covers a whole allocation. Thread-safe.
class AddressSpace {
 public:
  CUresult Reserve(uint64_t size, uint64_t alignment, CUdeviceptr hint, CUdeviceptr& at);
  CUresult Free(CUdeviceptr at, uint64_t size);
  CUresult Map(CUdeviceptr at, uint64_t size, const std::shared_ptr<Allocation>& allocation);
  CUresult Unmap(CUdeviceptr at, uint64_t size);
  // INVALID_VALUE unless the range is made of whole mappings without a gap.
  CUresult SetAccess(CUdeviceptr at, uint64_t size, size_t gpu, CUmemAccess_flags flags);
  CUresult GetAccess(CUdeviceptr at, size_t gpu, CUmemAccess_flags& flags) const;

  // cuMemAlloc's memory: every GPU has access, and only FreeLinear takes it away.
  CUresult AddLinear(Share share, uint64_t size, PrimaryCtx& ctx, CUdeviceptr& at);
  CUresult FreeLinear(CUdeviceptr at);
  void FreeLinearOf(const PrimaryCtx& ctx);

  // Nothing unless the address is in a reservation.
  std::unique_ptr<AddressFacts> FactsOf(CUdeviceptr at) const;
  // Whether any of the bytes lies in a reservation.
  bool Touches(CUdeviceptr at, uint64_t size) const;
  // Whether all of the bytes are mapped.
  bool Covers(CUdeviceptr at, uint64_t size) const;
  // Where the bytes are; ILLEGAL_ADDRESS if the GPU may not access one of them so.
  CUresult Resolve(CUdeviceptr at, uint64_t size, size_t gpu, bool write,
                   std::vector<DevicePiece>& pieces) const;

 private:
  struct Mapping {
    uint64_t size = 0;
    std::shared_ptr<Allocation> allocation;
    std::array<CUmemAccess_flags, kMaxGpus> access{};
  };
  using Mappings = std::map<CUdeviceptr, Mapping>;
  struct Reservation {
    uint64_t size = 0;
    PrimaryCtx* linear_of = nullptr;  // set for cuMemAlloc's
    Mappings mappings;
  };
  using Reservations = std::map<CUdeviceptr, Reservation>;

  Reservations::const_iterator ReservationOf(CUdeviceptr at) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The mappings that make up the range exactly; empty if none do. Not cuMemAlloc's.
  std::vector<CUdeviceptr> WholeMappings(CUdeviceptr at, uint64_t size) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Calls `visit(mapping, offset, size)` for the mapped parts of the range in order, until one
  // answers false; whether all of the range was visited.
  template <typename Visit>
  bool Walk(CUdeviceptr at, uint64_t size, const Visit& visit) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Reservations reservations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure::emulated
