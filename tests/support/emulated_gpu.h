#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "core/base/clock.h"
#include "core/base/units.h"
#include "tests/support/emulated_driver/machine_config.h"
#include "tests/support/emulated_driver/state_folder.h"

namespace tenure {

// A machine with GPUs that do not exist: CUDA's driver for processes that find `libcuda.so.1` in
// LD_LIBRARY_PATH. All processes with the same state folder share the GPUs' memory and ask the same
// driver. The folder's parts:
//
//   config         the machine, see emulated_driver/machine_config.h; read by each cuInit
//   control        counters and faults, mapped by all
//   calls-PID      the counters of one process
//   allocation-*   one file for each allocation and each context
//   lock           held around every change of the above
//
// The driver refuses what NVIDIA's refuses, and where the documentation leaves it open it refuses
// more: only whole mappings are unmapped or given access, work that comes to memory which was
// unmapped meanwhile ends the context, and so does a copy without access; device memory is not
// copied to where some of it lies. A process whose CUDA_MPS_PIPE_DIRECTORY holds a `control` joins
// that MPS server, which does not answer. Not there: kernels, graphs and captures, the per-thread
// default stream, memory of the host's in cuMemCreate, other contexts than the primary ones. Every
// GPU reaches every other one's memory.
//
// Whatever is set here works at once, in processes that run already too. Entry points are named
// without version: "cuMemAlloc". Throws std::runtime_error if the folder cannot be used. Removes
// nothing: the folder is the caller's. Thread-safe.
class EmulatedGpu {
 public:
  // Makes `folder`, which may exist, and writes the machine into it. Memory that processes touch
  // takes as much room there, and is a SIGBUS where there is none: a folder under /dev/shm is fast.
  explicit EmulatedGpu(std::string folder, const emulated::MachineConfig& machine = {});

  const std::string& folder() const { return state_.path(); }

  // What a process needs to find the driver and the machine, each as NAME=VALUE: LD_LIBRARY_PATH,
  // before what it was, and TENURE_EMULATED_GPU.
  std::vector<std::string> Environment() const;
  // Makes dlopen("libcuda.so.1") of this process find the driver, and its cuInit this machine. A
  // process has one machine, from its first call of the driver on.
  void UseInThisProcess() const;

  // Which calls of an entry point a fault strikes: `times` of them, or all for 0, from the
  // `first` after it was set. They are counted over all processes together, or by each for itself.
  struct Calls {
    uint64_t first = 1;
    uint64_t times = 1;
    bool each_process = false;
  };
  // Answers the CUresult and does nothing else.
  void Fail(std::string_view entry, int result, Calls calls);
  void Fail(std::string_view entry, int result) { Fail(entry, result, Calls()); }
  // Waits before it goes on.
  void Delay(std::string_view entry, Duration span, Calls calls);
  // Does not go on until the file of the name given back is removed.
  std::string Hang(std::string_view entry, Calls calls);
  std::string Hang(std::string_view entry) { return Hang(entry, Calls()); }
  // Ends the process with SIGKILL.
  void Kill(std::string_view entry, Calls calls);
  // No fault strikes any more; what hangs goes on.
  void ClearFaults();

  // From now on every call on the GPU answers the CUresult: 46 is DEVICE_UNAVAILABLE, 214
  // ECC_UNCORRECTABLE. `gpu` is a position in the configuration.
  void LoseDevice(size_t gpu, int result = 46);
  // As after a reset by the administrator.
  void RestoreDevice(size_t gpu);

  // Keeps every stream from beginning a copy until they are released: copies then stay queued.
  void HoldStreams();
  void ReleaseStreams();

  // Calls so far, those that failed among them: of all processes, or of one.
  uint64_t CallsOf(std::string_view entry) const;
  uint64_t CallsOf(std::string_view entry, pid_t pid) const;

  // What living allocations and contexts of all processes take of a GPU.
  Bytes LiveBytes(size_t gpu);

 private:
  size_t SetFault(std::string_view entry, emulated::FaultAction action, Calls calls, int result,
                  Duration span);

  emulated::StateFolder state_;
  Mutex mutex_;
  size_t faults_ ABSL_GUARDED_BY(mutex_) = 0;        // set since the last ClearFaults
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last fault set
};

}  // namespace tenure
