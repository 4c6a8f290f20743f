#pragma once

#include <cuda.h>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/cuda_driver.h"

namespace tenure {

// One GPU, or MIG instance, as the driver offers it.
struct CudaProperties {
  CUdevice device = 0;
  std::string name;  // "NVIDIA H200"
  std::string uuid;  // "GPU-8a3c...", "MIG-..."
  Bytes total;       // what it has in all
  Bytes granule;     // of its virtual memory, at least 2 MiB; zero without virtual memory
  bool virtual_memory = false;
  bool posix_fds = false;
  bool gpudirect = false;  // can let other devices reach such memory directly
};

// The GPUs that this process may use, in the driver's order.
StatusOr<std::vector<CudaProperties>> ListCudaGpus(const CudaDriver& driver);

// One GPU, with its primary context, through which every call about it is made: so that a call that
// fails is sorted, and one that does not return is noticed. A GPU that is lost stays lost: the
// driver is not called for it any more. Thread-safe.
class CudaGpu {
 public:
  // Makes the context. BACKEND, DRIVER, DEVICE_LOST. `clock` outlives it.
  static StatusOr<std::unique_ptr<CudaGpu>> Open(const CudaDriver& driver,
                                                 const CudaProperties& properties,
                                                 const Clock& clock, Duration driver_timeout);
  ~CudaGpu();

  const CudaProperties& properties() const { return properties_; }
  // What a Segment on this GPU is made of.
  CUmemAllocationProp allocation() const;

  // Calls one entry point, named by its member of CudaDriver:
  //
  //   gpu.Call("cuMemRelease", &CudaDriver::cuMemRelease, handle)
  //
  // BACKEND: the GPU has no memory left, for certain. DEVICE_LOST: the GPU or its context is gone,
  // now or before. DRIVER: anything else, which no correct program sees.
  template <typename Entry, typename... Arguments>
  Status Call(const char* name, Entry CudaDriver::*entry, Arguments... arguments) {
    TENURE_RETURN_IF_ERROR(Lost());
    const auto call = Begin(name);
    const CUresult result = (driver_.*entry)(arguments...);
    return End(call, result, MeansLost(result));
  }

  // The same for a call that waits for copies. When it fails, nobody can tell what may still
  // arrive and where: the GPU is lost.
  template <typename Entry, typename... Arguments>
  Status Await(const char* name, Entry CudaDriver::*entry, Arguments... arguments) {
    TENURE_RETURN_IF_ERROR(Lost());
    const auto call = Begin(name);
    const CUresult result = (driver_.*entry)(arguments...);
    return End(call, result, result != CUDA_SUCCESS);
  }

  // Makes the context current on the calling thread, as copies need it.
  Status Bind();

  // OK while the GPU serves; DEVICE_LOST, with the cause, once it does not.
  Status Lost() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, after a look whether a call has not returned for longer than driver_timeout.
  Status Look() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct RunningCall {
    const char* name;
    Instant since;
  };
  using RunningCalls = std::list<RunningCall>;

  CudaGpu(const CudaDriver& driver, const CudaProperties& properties, const Clock& clock,
          Duration driver_timeout)
      : driver_(driver), properties_(properties), clock_(clock), driver_timeout_(driver_timeout) {}

  RunningCalls::iterator Begin(const char* name) ABSL_LOCKS_EXCLUDED(mutex_);
  Status End(RunningCalls::iterator call, CUresult result, bool loses) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if after this result the GPU, or all that this process has on it, is gone.
  static bool MeansLost(CUresult result);
  void Lose(const std::string& cause) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const CudaDriver driver_;
  const CudaProperties properties_;
  const Clock& clock_;
  const Duration driver_timeout_;
  CUcontext context_ = nullptr;  // set once, before anybody else sees this

  mutable Mutex mutex_;
  RunningCalls calls_ ABSL_GUARDED_BY(mutex_);
  Status lost_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
