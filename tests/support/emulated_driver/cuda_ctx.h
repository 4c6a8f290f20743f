#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "tests/support/emulated_driver/cuda_types.h"
#include "tests/support/emulated_driver/machine_config.h"
#include "tests/support/emulated_driver/state_folder.h"

namespace tenure::emulated {

class Stream;

// The primary context of one GPU in this process: active from the first Retain to the last Release.
// A CUcontext is the address of one; it is never freed. Thread-safe.
class PrimaryCtx {
 public:
  // `gpu` is the position in the configuration; everything outlives the context.
  PrimaryCtx(StateFolder& folder, const MachineConfig& machine, size_t gpu, CUdevice ordinal)
      : folder_(folder), machine_(machine), gpu_(gpu), ordinal_(ordinal) {}

  size_t gpu() const { return gpu_; }
  CUdevice ordinal() const { return ordinal_; }
  CUcontext handle() { return reinterpret_cast<CUcontext>(this); }
  const GpuConfig& config() const { return machine_.gpus[gpu_]; }
  StateFolder& folder() const { return folder_; }
  Duration copy_delay() const { return machine_.copy_delay; }

  // The first one takes the context's cost from the device: OUT_OF_MEMORY if that is too much.
  CUresult Retain();
  // Tells in `last` whether the context ended: what lives in it is then to be destroyed.
  CUresult Release(bool& last);
  bool active() const;

  // What a lost device answers, or success.
  CUresult DeviceHealth() const;
  // What every call in this context answers: the device's loss, CONTEXT_IS_DESTROYED while it is
  // not active, or the error that ended its work, which stays for the life of the process.
  CUresult Health() const;
  // The context is of no use from now on.
  void Fail(CUresult error);

  // Streams stay known here until their last work is done, though they are destroyed before.
  void Add(const std::shared_ptr<Stream>& stream);
  // Waits for what was enqueued so far: in all streams, or in those that the NULL stream waits for.
  void SynchronizeAll() { Synchronize(true); }
  void SynchronizeBlocking() { Synchronize(false); }
  // Whether nothing is left in the streams that the NULL stream waits for.
  bool BlockingIdle();

 private:
  void Synchronize(bool all);
  std::vector<std::shared_ptr<Stream>> Streams(bool all);

  StateFolder& folder_;
  const MachineConfig& machine_;
  const size_t gpu_;
  const CUdevice ordinal_;
  std::atomic<CUresult> error_ = CUDA_SUCCESS;
  mutable Mutex mutex_;
  int retained_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<Share> cost_ ABSL_GUARDED_BY(mutex_);  // while active
  std::vector<std::weak_ptr<Stream>> streams_ ABSL_GUARDED_BY(mutex_);
};

// The contexts current to the calling thread; the last one is it.
std::vector<PrimaryCtx*>& CtxStack();

}  // namespace tenure::emulated
