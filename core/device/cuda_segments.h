#pragma once

#include <cuda.h>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/cuda_gpu.h"
#include "core/device/free_ranges.h"
#include "core/device/segment.h"
#include "core/device/segment_tally.h"

namespace tenure {

// Makes the Segments of one GPU: each one physical allocation of the driver's, mapped for the
// daemon in one range of addresses that is reserved once. Thread-safe.
class CudaSegments {
 public:
  // Reserves `address_space`. `gpudirect`: other devices may reach the memory directly. `gpu` and
  // `tally` outlive this, and this every Segment.
  static StatusOr<std::unique_ptr<CudaSegments>> Reserve(CudaGpu& gpu, Bytes address_space,
                                                         bool gpudirect, SegmentTally& tally);
  ~CudaSegments();
  CudaSegments(const CudaSegments&) = delete;
  CudaSegments& operator=(const CudaSegments&) = delete;

  // As Device::CreateSegments. Makes their memory accessible with one call where free addresses
  // allow to map them side by side. BACKEND, DEVICE_LOST, DRIVER.
  StatusOr<std::vector<Segment>> Create(std::span<const Bytes> sizes) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Backing;
  using Backings = std::vector<std::unique_ptr<Backing>>;

  CudaSegments(CudaGpu& gpu, CUmemAllocationProp allocation, Range addresses, SegmentTally& tally)
      : gpu_(gpu),
        allocation_(allocation),
        addresses_(addresses),
        tally_(tally),
        free_(addresses) {}

  std::optional<Range> TakeAddresses(Bytes size) ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveAddresses(Range addresses) ABSL_LOCKS_EXCLUDED(mutex_);
  // Maps at consecutive addresses, makes them accessible, and clears them.
  Status MapRun(std::span<const std::unique_ptr<Backing>> backings, Range addresses);
  Status Clear(Range addresses);

  CudaGpu& gpu_;
  const CUmemAllocationProp allocation_;
  const Range addresses_;
  SegmentTally& tally_;
  CUstream clearing_ = nullptr;  // set once, by Reserve

  Mutex mutex_;
  FreeRanges free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
