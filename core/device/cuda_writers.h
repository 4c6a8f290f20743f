#pragma once

#include <array>
#include <cstddef>
#include <cuda.h>
#include <memory>
#include <span>
#include <vector>

#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/cuda_gpu.h"
#include "core/device/segment_writer.h"

namespace tenure {

// Brings bytes to one GPU, and moves them on it. Each writer has two pinned buffers that take
// turns, one being filled while the other's bytes travel, and a stream of its own; all are made
// once, here. Thread-safe.
class CudaWriters {
 public:
  // For `count` writers at a time, with buffers of `buffer` bytes. `gpu` outlives this, and this
  // every writer. BACKEND if the machine has not that much memory to pin.
  static StatusOr<std::unique_ptr<CudaWriters>> Make(CudaGpu& gpu, size_t count, Bytes buffer);
  ~CudaWriters();
  CudaWriters(const CudaWriters&) = delete;
  CudaWriters& operator=(const CudaWriters&) = delete;

  // Waits while all are in use. DEVICE_LOST.
  StatusOr<std::unique_ptr<SegmentWriter>> Open() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  class Writer;

  // What one writer at a time uses.
  struct Lane {
    struct Buffer {
      std::span<std::byte> bytes;
      CUevent emptied = nullptr;
    };
    std::array<Buffer, 2> buffers;
    CUstream stream = nullptr;
  };

  CudaWriters(CudaGpu& gpu, size_t count) : gpu_(gpu), lanes_(count) {}
  // REQUIRES: nothing is on its way in the lane.
  void Return(Lane& lane) ABSL_LOCKS_EXCLUDED(mutex_);

  CudaGpu& gpu_;
  std::vector<Lane> lanes_;  // constant once made
  void* pinned_ = nullptr;   // all buffers, one behind the other

  Mutex mutex_;
  CondVar returned_;
  std::vector<Lane*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
