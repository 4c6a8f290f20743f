#pragma once

#include <absl/status/status.h>
#include <memory>

namespace tenure::client {

class CudaDevice;

// Asks about CUDA events of this process. Thread-safe.
class CudaEvents {
 public:
  virtual ~CudaEvents() = default;

  // FAILED_PRECONDITION with reason CUDA_UNAVAILABLE if nobody can be asked.
  virtual absl::Status Available() = 0;
  // True once the work before the event has ended; false as well if that is not to be known.
  // REQUIRES: Available() was OK.
  virtual bool Reached(void* cu_event) = 0;
};

// NVIDIA's driver, which is asked with the context of `device` current. nullptr for memory of the
// host: the driver is opened when it is first needed, and asked in the context of who asks.
std::shared_ptr<CudaEvents> DriverCudaEvents(std::shared_ptr<CudaDevice> device);

}  // namespace tenure::client
