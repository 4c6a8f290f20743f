#include "tests/support/emulated_gpu.h"

#include <algorithm>
#include <chrono>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <stdlib.h>

namespace tenure {
namespace {

using emulated::ControlBlock;
using emulated::EntryPoint;
using emulated::FaultAction;
using emulated::kEntryPointNames;

EntryPoint EntryOf(std::string_view name) {
  const auto* const found =
      std::find(std::begin(kEntryPointNames), std::end(kEntryPointNames), name);
  if (found == std::end(kEntryPointNames)) {
    throw std::runtime_error("the emulated driver has no " + std::string(name));
  }
  return static_cast<EntryPoint>(found - std::begin(kEntryPointNames));
}

std::string Prepare(std::string folder, const emulated::MachineConfig& machine) {
  std::filesystem::create_directories(folder);
  std::ofstream config(emulated::ConfigPath(folder));
  config << emulated::FormatConfig(machine);
  if (!config.flush()) throw std::runtime_error("cannot write into " + folder);
  return folder;
}

}  // namespace

EmulatedGpu::EmulatedGpu(std::string folder, const emulated::MachineConfig& machine)
    : state_(Prepare(std::move(folder), machine)) {
  if (!state_.valid()) throw std::runtime_error("cannot use " + state_.path());
}

std::vector<std::string> EmulatedGpu::Environment() const {
  const char* const before = getenv("LD_LIBRARY_PATH");
  std::string libraries = std::string("LD_LIBRARY_PATH=") + EMULATED_DRIVER_FOLDER;
  if (before != nullptr && *before != '\0') libraries += std::string(":") + before;
  return {libraries, "TENURE_EMULATED_GPU=" + folder()};
}

void EmulatedGpu::UseInThisProcess() const {
  setenv("TENURE_EMULATED_GPU", folder().c_str(), 1);
  // A library that is loaded is found by its own name, wherever it lies.
  if (dlopen(EMULATED_DRIVER_FOLDER "/libcuda.so.1", RTLD_NOW) == nullptr) {
    throw std::runtime_error(dlerror());
  }
}

void EmulatedGpu::Fail(std::string_view entry, int result, Calls calls) {
  SetFault(entry, FaultAction::kFail, calls, result, Duration::zero());
}

void EmulatedGpu::Delay(std::string_view entry, Duration span, Calls calls) {
  SetFault(entry, FaultAction::kSleep, calls, 0, span);
}

std::string EmulatedGpu::Hang(std::string_view entry, Calls calls) {
  const size_t position = SetFault(entry, FaultAction::kHang, calls, 0, Duration::zero());
  return emulated::HangPath(folder(), position);
}

void EmulatedGpu::Kill(std::string_view entry, Calls calls) {
  SetFault(entry, FaultAction::kKill, calls, 0, Duration::zero());
}

size_t EmulatedGpu::SetFault(std::string_view entry, FaultAction action, Calls calls, int result,
                             Duration span) {
  const EntryPoint point = EntryOf(entry);
  const MutexLock lock(mutex_);
  if (faults_ == emulated::kMaxFaults) throw std::runtime_error("too many faults are set");
  const size_t position = faults_++;
  if (action == FaultAction::kHang) std::ofstream(emulated::HangPath(folder(), position));
  emulated::Fault& fault = state_.control().faults[position];
  fault.entry = point;
  fault.action = action;
  fault.result = result;
  fault.nanoseconds = static_cast<uint64_t>(span.count());
  fault.first = calls.first;
  fault.times = calls.times;
  fault.each_process = calls.each_process;
  fault.calls = 0;
  fault.generation = ++generation_;
  state_.control().armed |= uint64_t{1} << position;
  return position;
}

void EmulatedGpu::ClearFaults() {
  const MutexLock lock(mutex_);
  state_.control().armed = 0;
  for (size_t i = 0; i < faults_; ++i) std::filesystem::remove(emulated::HangPath(folder(), i));
  faults_ = 0;
}

void EmulatedGpu::LoseDevice(size_t gpu, int result) { state_.control().lost[gpu] = result; }

void EmulatedGpu::RestoreDevice(size_t gpu) { state_.control().lost[gpu] = 0; }

void EmulatedGpu::HoldStreams() { state_.control().streams_held = true; }

void EmulatedGpu::ReleaseStreams() { state_.control().streams_held = false; }

uint64_t EmulatedGpu::CallsOf(std::string_view entry) const {
  return state_.control().calls[static_cast<size_t>(EntryOf(entry))];
}

uint64_t EmulatedGpu::CallsOf(std::string_view entry, pid_t pid) const {
  const emulated::SharedFile<emulated::ProcessCalls> calls(
      emulated::ProcessCallsPath(folder(), pid));
  if (!calls.valid()) throw std::runtime_error("cannot read the calls of a process");
  return calls->calls[static_cast<size_t>(EntryOf(entry))];
}

Bytes EmulatedGpu::LiveBytes(size_t gpu) { return state_.InUse(gpu); }

}  // namespace tenure
