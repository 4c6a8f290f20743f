#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <atomic>
#include <cstdint>
#include <cuda.h>
#include <memory>
#include <string>

#include "client/cpp/cuda_driver.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// One CUDA device of this process, with its primary context retained and a stream of our own in it.
// Thread-safe, except for opening and destroying.
class CudaDevice {
 public:
  // Finds the device by its UUID, "GPU-" or "MIG-" and 32 hexadecimal digits in groups, and never
  // by its ordinal, which differs from process to process. CUDA_DEVICE_NOT_FOUND if this process
  // does not see it, CUDA_UNAVAILABLE if it has no virtual memory, CUDA_FAILED.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Open(std::shared_ptr<const CudaDriver> driver,
                                                          const std::string& uuid);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice();

  const CudaDriver& driver() const { return *driver_; }
  int ordinal() const { return ordinal_; }
  CUcontext context() const { return context_; }
  CUstream stream() const { return stream_; }
  // What segments, and the addresses that they are mapped at, are multiples of: at least 2 MiB.
  uint64_t granule_bytes() const { return granule_bytes_; }

  // REQUIRE: a CudaScope of this thread.
  //
  // What came as an fd, which is closed; to be released once it is mapped.
  absl::StatusOr<CUmemGenericAllocationHandle> Import(UniqueFd fd) const;
  // Makes what is mapped accessible from this device.
  absl::Status Allow(CUdeviceptr at, uint64_t bytes, CUmemAccess_flags access) const;
  // Waits for all work in the context. UNAVAILABLE while a stream capture forbids that.
  absl::Status Synchronize() const;

  // The driver does not do any more what it is told here: it is not called in the destructor, and
  // the context stays retained.
  void Abandon() { abandoned_ = true; }

 private:
  CudaDevice(std::shared_ptr<const CudaDriver> driver, CUdevice ordinal)
      : driver_(std::move(driver)), ordinal_(ordinal) {}

  absl::Status ReadGranule();
  absl::Status MakeStream();

  const std::shared_ptr<const CudaDriver> driver_;
  const CUdevice ordinal_;
  uint64_t granule_bytes_ = 0;   // from here on set by Open
  CUcontext context_ = nullptr;  // null until retained
  CUstream stream_ = nullptr;    // null until made
  std::atomic<bool> abandoned_ = false;
};

// Lets the calling thread call the driver for a device: its primary context is current, and calls
// that could disturb a stream capture of other threads are allowed, since ours disturb none. Both
// are as they were at the end. Thread-compatible, of one thread.
class CudaScope {
 public:
  explicit CudaScope(const CudaDevice& device);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

  // CUDA_FAILED if the context cannot be made current; nothing is to be called then.
  const absl::Status& status() const { return status_; }

 private:
  const CudaDriver& driver_;
  CUstreamCaptureMode capture_mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
  absl::Status status_;
};

}  // namespace tenure::client
