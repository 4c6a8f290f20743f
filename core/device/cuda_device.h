#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/device/device.h"

namespace tenure {

struct CudaDeviceOptions {
  std::string name = "gpu:0";
  std::string uuid;  // as in FoundGpu
  // A driver call that takes longer than this means that the GPU is lost.
  Duration driver_timeout = std::chrono::seconds(60);
  size_t writers = 4;      // at a time
  bool gpudirect = false;  // other devices may reach the memory directly, where that is supported
};

// One GPU, or MIG instance, that this process may use.
struct FoundGpu {
  std::string uuid;  // "GPU-8a3c19f2-...", "MIG-..."
  std::string model;
  Bytes total;
};

// True if this program was built with the CUDA backend.
bool HasCudaBackend();

// What can be used, in the driver's order; MIG instances count as GPUs of their own. BACKEND, in
// words that name the cause, if there is no driver, a stub of one or one too old, or this program
// was built without the backend. Empty if no GPU has what Tenure needs.
StatusOr<std::vector<FoundGpu>> FindGpus();

// One question about this machine, and its answer.
struct CudaFinding {
  enum class Verdict { kGood, kNote, kBad };
  Verdict verdict = Verdict::kGood;
  std::string subject;  // "driver", "GPU-8a3c19f2-...: posix fds"
  std::string answer;
};

// Whether this machine has what the CUDA backend needs: driver, virtual memory, POSIX fds, MPS,
// MIG, the limit of locked memory.
std::vector<CudaFinding> CheckCuda();

// A GPU as a Device. A Segment is one allocation of the driver's virtual memory, exported as a fd
// when asked. `clock` outlives it. DEVICE_NOT_FOUND if no usable GPU has this UUID; BACKEND,
// DRIVER, DEVICE_LOST.
StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions& options,
                                                 const Clock& clock);

}  // namespace tenure
