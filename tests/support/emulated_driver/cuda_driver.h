#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/emulated_driver/control_block.h"
#include "tests/support/emulated_driver/cuda_address_space.h"
#include "tests/support/emulated_driver/cuda_ctx.h"
#include "tests/support/emulated_driver/cuda_handles.h"
#include "tests/support/emulated_driver/cuda_pinned_memory.h"
#include "tests/support/emulated_driver/cuda_stream.h"
#include "tests/support/emulated_driver/entry_points.h"
#include "tests/support/emulated_driver/state_folder.h"

namespace tenure::emulated {

// The driver in one process. Made by the first call, and never destroyed: streams may work on while
// the process exits. Thread-safe.
class Driver {
 public:
  static Driver& OfThisProcess();

  // What every entry point does first: counts the call and lets the faults that a test has set
  // happen.
  CUresult Enter(EntryPoint entry);
  // NOT_INITIALIZED before cuInit, and for ever in a child that was forked after it.
  CUresult Ready() const;

  // cuInit.
  CUresult Initialize(unsigned flags);
  int driver_version() const { return machine_ ? machine_->driver_version : CUDA_VERSION; }

  // The GPUs that CUDA_VISIBLE_DEVICES leaves, by ordinal. REQUIRES: initialised, as all below.
  const std::vector<std::unique_ptr<PrimaryCtx>>& gpus() const { return gpus_; }
  // Null for an ordinal that is none.
  PrimaryCtx* Gpu(CUdevice ordinal) const;
  // By position in the configuration; null if this process does not see it.
  PrimaryCtx* GpuAt(size_t position) const;
  // Null for what is no context.
  PrimaryCtx* Ctx(CUcontext handle) const;
  StateFolder& folder() { return *folder_; }

  // Ends all that lives in a context.
  void Reset(PrimaryCtx& ctx);

  AllocationHandles handles;
  AddressSpace addresses;
  PinnedMemory pinned;
  HandleTable<Stream> streams;
  HandleTable<Event> events;

 private:
  Driver();

  static void AfterFork();
  CUresult Suffer(EntryPoint entry);
  CUresult Suffer(size_t position, Fault& fault);

  std::optional<StateFolder> folder_;                      // none without a machine
  std::optional<SharedFile<ProcessCalls>> process_calls_;  // likewise
  std::optional<MachineConfig> machine_;                   // none if it is not understood
  std::vector<std::unique_ptr<PrimaryCtx>> gpus_;
  std::atomic<bool> initialized_ = false;
  std::atomic<bool> forked_ = false;
  // What this process knows of faults that each process counts by itself.
  std::atomic<uint64_t> own_generation_[kMaxFaults] = {};
  std::atomic<uint64_t> own_calls_[kMaxFaults] = {};
};

// Runs `body(driver)`, initialised or not.
template <typename Body>
CUresult CallAnyTime(EntryPoint entry, const Body& body) {
  Driver& driver = Driver::OfThisProcess();
  const CUresult entered = driver.Enter(entry);
  return entered != CUDA_SUCCESS ? entered : body(driver);
}

// Runs `body(driver)` if the driver is initialised.
template <typename Body>
CUresult Call(EntryPoint entry, const Body& body) {
  return CallAnyTime(entry, [&](Driver& driver) {
    const CUresult ready = driver.Ready();
    return ready != CUDA_SUCCESS ? ready : body(driver);
  });
}

// Runs `body(driver, ctx)` in the context that is current to the calling thread, if it is sound.
template <typename Body>
CUresult CallInCtx(EntryPoint entry, const Body& body) {
  return Call(entry, [&](Driver& driver) {
    if (CtxStack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
    PrimaryCtx& ctx = *CtxStack().back();
    const CUresult health = ctx.Health();
    return health != CUDA_SUCCESS ? health : body(driver, ctx);
  });
}

}  // namespace tenure::emulated
