#include "tests/support/emulated_driver/cuda_driver.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <fstream>
#include <pthread.h>
#include <signal.h>
#include <sstream>
#include <stdlib.h>
#include <thread>
#include <unistd.h>

#include "tests/support/emulated_driver/cuda_visible_devices.h"

namespace tenure::emulated {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(1);

// Whether the process is led to an MPS server. None is ever there to answer.
bool FindsMpsServer() {
  const char* const pipes = getenv("CUDA_MPS_PIPE_DIRECTORY");
  return pipes != nullptr && access((std::string(pipes) + "/control").c_str(), F_OK) == 0;
}

std::atomic<Driver*> g_driver = nullptr;
std::mutex g_making;

}  // namespace

Driver& Driver::OfThisProcess() {
  Driver* driver = g_driver.load();
  if (driver != nullptr) return *driver;
  const std::lock_guard lock(g_making);
  if (g_driver.load() == nullptr) {
    static const int kRegistered = pthread_atfork(nullptr, nullptr, AfterFork);
    static_cast<void>(kRegistered);
    g_driver = new Driver();
  }
  return *g_driver.load();
}

// A child of a process that has initialised the driver can't use it; another child starts afresh.
void Driver::AfterFork() {
  Driver* const parents = g_driver.load();
  if (parents == nullptr) return;
  if (parents->initialized_) {
    parents->forked_ = true;
  } else {
    g_driver = nullptr;
  }
}

Driver::Driver() {
  const char* const path = getenv("TENURE_EMULATED_GPU");
  if (path == nullptr) return;
  folder_.emplace(path);
  if (!folder_->valid()) {
    folder_.reset();
    return;
  }
  process_calls_.emplace(ProcessCallsPath(path, getpid()));
  std::stringstream config;
  config << std::ifstream(ConfigPath(path)).rdbuf();
  machine_ = ParseConfig(config.str());
}

CUresult Driver::Enter(EntryPoint entry) {
  if (!folder_ || forked_) return CUDA_SUCCESS;
  const auto position = static_cast<size_t>(entry);
  ++folder_->control().calls[position];
  if (process_calls_->valid()) ++(*process_calls_)->calls[position];
  return Suffer(entry);
}

CUresult Driver::Ready() const {
  return initialized_ && !forked_ ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
}

CUresult Driver::Suffer(EntryPoint entry) {
  ControlBlock& control = folder_->control();
  for (uint64_t armed = control.armed; armed != 0; armed &= armed - 1) {
    const auto position = static_cast<size_t>(std::countr_zero(armed));
    Fault& fault = control.faults[position];
    if (fault.entry != entry) continue;
    const CUresult suffered = Suffer(position, fault);
    if (suffered != CUDA_SUCCESS) return suffered;
  }
  return CUDA_SUCCESS;
}

CUresult Driver::Suffer(size_t position, Fault& fault) {
  uint64_t call = 0;
  if (fault.each_process) {
    if (own_generation_[position].exchange(fault.generation) != fault.generation) {
      own_calls_[position] = 0;
    }
    call = ++own_calls_[position];
  } else {
    call = ++fault.calls;
  }
  if (call < fault.first) return CUDA_SUCCESS;
  if (fault.times != 0 && call - fault.first >= fault.times) return CUDA_SUCCESS;
  switch (fault.action) {
    case FaultAction::kFail:
      return static_cast<CUresult>(fault.result.load());
    case FaultAction::kSleep:
      std::this_thread::sleep_for(std::chrono::nanoseconds(fault.nanoseconds));
      break;
    case FaultAction::kHang:
      while (access(HangPath(folder_->path(), position).c_str(), F_OK) == 0) {
        std::this_thread::sleep_for(kPoll);
      }
      break;
    case FaultAction::kKill:
      kill(getpid(), SIGKILL);
      break;
  }
  return CUDA_SUCCESS;
}

CUresult Driver::Initialize(unsigned flags) {
  if (forked_) return CUDA_ERROR_NOT_INITIALIZED;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!folder_) return CUDA_ERROR_NO_DEVICE;
  if (!machine_) return CUDA_ERROR_SYSTEM_NOT_READY;
  const std::lock_guard lock(g_making);
  if (initialized_) return CUDA_SUCCESS;
  if (FindsMpsServer()) return CUDA_ERROR_MPS_CONNECTION_FAILED;
  CUdevice ordinal = 0;
  for (const size_t position : VisibleGpus(*machine_, getenv("CUDA_VISIBLE_DEVICES"))) {
    gpus_.push_back(std::make_unique<PrimaryCtx>(*folder_, *machine_, position, ordinal++));
  }
  if (gpus_.empty()) return CUDA_ERROR_NO_DEVICE;
  initialized_ = true;
  return CUDA_SUCCESS;
}

PrimaryCtx* Driver::Gpu(CUdevice ordinal) const {
  const bool is_one = ordinal >= 0 && static_cast<size_t>(ordinal) < gpus_.size();
  return is_one ? gpus_[static_cast<size_t>(ordinal)].get() : nullptr;
}

PrimaryCtx* Driver::GpuAt(size_t position) const {
  const auto found = std::find_if(gpus_.begin(), gpus_.end(),
                                  [&](const auto& gpu) { return gpu->gpu() == position; });
  return found == gpus_.end() ? nullptr : found->get();
}

PrimaryCtx* Driver::Ctx(CUcontext handle) const {
  const auto found = std::find_if(gpus_.begin(), gpus_.end(),
                                  [&](const auto& gpu) { return gpu->handle() == handle; });
  return found == gpus_.end() ? nullptr : found->get();
}

void Driver::Reset(PrimaryCtx& ctx) {
  for (const auto& stream : streams.All()) {
    if (&stream->ctx() != &ctx) continue;
    stream->Close();
    streams.Remove(stream.get());
  }
  ctx.SynchronizeAll();
  for (const auto& event : events.All()) {
    if (&event->ctx() == &ctx) events.Remove(event.get());
  }
  addresses.FreeLinearOf(ctx);
  pinned.Forget(ctx);
}

}  // namespace tenure::emulated
