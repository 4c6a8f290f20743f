#pragma once

#include <cstdint>
#include <cuda.h>
#include <functional>
#include <span>

#include "core/base/clock.h"
#include "tests/gpu/trial/gpu.h"

namespace tenure::trial {

// What kernels and graphs need of the driver.
#define TENURE_KERNEL_CALLS(CALL)   \
  CALL(cuModuleLoadData)            \
  CALL(cuModuleUnload)              \
  CALL(cuModuleGetFunction)         \
  CALL(cuLaunchKernel)              \
  CALL(cuStreamBeginCapture)        \
  CALL(cuStreamEndCapture)          \
  CALL(cuGraphInstantiateWithFlags) \
  CALL(cuGraphDestroy)              \
  CALL(cuGraphLaunch)               \
  CALL(cuGraphExecDestroy)

// Device memory, and what a sum over it goes into.
struct SummedRange {
  CUdeviceptr from = 0;
  Bytes size;
  CUdeviceptr sum = 0;  // 8 bytes
};

// What SumBytes computes of bytes that the host has.
uint64_t SumOf(std::span<const std::byte> bytes);

// The trial's kernels, compiled by the driver, and graphs of them. What the driver refuses is
// thrown as by Gpu. Thread-compatible.
class Kernels {
 public:
  // CannotRun if the driver has no calls for kernels and graphs; does not begin to use CUDA.
  static void RequireCalls() { Find(); }
  // CannotRun if the driver runs no kernels.
  explicit Kernels(const Gpu& gpu);
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  // Adds (i + 1) * byte i, modulo 2^64, for each byte to the sum. Returns before it is done.
  void SumBytes(const SummedRange& range, CUstream stream) const;

  // Reads `range` again and again for `span` and adds what it read to the sum. `started` is 8 bytes
  // of pinned memory, which become 1 when the kernel runs. Returns before it is done.
  void ReadFor(const SummedRange& range, Duration span, CUdeviceptr started, CUstream stream) const;

  // Writes a range again and again for `span`; the rest as in ReadFor.
  void WriteFor(CUdeviceptr to, Bytes size, Duration span, CUdeviceptr started,
                CUstream stream) const;

  // What `work` puts into the stream, which does not run then; launched with Launch.
  CUgraphExec Capture(CUstream stream, const std::function<void()>& work) const;
  void Launch(CUgraphExec graph, CUstream stream) const;
  void Destroy(CUgraphExec graph) const;

 private:
  struct Calls {
#define TENURE_MEMBER(call) decltype(&::call) call = nullptr;
    TENURE_KERNEL_CALLS(TENURE_MEMBER)
#undef TENURE_MEMBER
  };

  static Calls Find();
  CUfunction Function(const char* name) const;
  void Run(CUfunction function, unsigned blocks, std::span<void*> parameters,
           CUstream stream) const;

  const Gpu& gpu_;
  const Calls cuda_;
  CUmodule module_ = nullptr;
  CUfunction sum_bytes_ = nullptr;
  CUfunction read_for_ = nullptr;
  CUfunction write_for_ = nullptr;
};

}  // namespace tenure::trial
