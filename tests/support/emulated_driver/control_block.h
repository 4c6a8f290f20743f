#pragma once

// What all processes of an emulated machine and the test that runs them share: a file of the state
// folder, mapped by each. Every field is atomic, since nobody knows who else looks at it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/support/emulated_driver/entry_points.h"
#include "tests/support/emulated_driver/machine_config.h"

namespace tenure::emulated {

using CallCounts = std::atomic<uint64_t>[kEntryPointCount];

enum class FaultAction : uint32_t {
  kFail,   // answer `result` and do nothing
  kSleep,  // for `nanoseconds`, then go on
  kHang,   // until the file hang-<the fault's position> is gone, then go on
  kKill,   // SIGKILL to the process itself
};

// One fault that a test has set. Written once, before its bit in `armed` is.
struct Fault {
  std::atomic<EntryPoint> entry;
  std::atomic<FaultAction> action;
  std::atomic<int> result;
  std::atomic<uint64_t> nanoseconds;
  std::atomic<uint64_t> first;       // the call that fails first, counted from 1 since the setting
  std::atomic<uint64_t> times;       // how many fail from there on; 0 for all
  std::atomic<bool> each_process;    // every process counts its own calls
  std::atomic<uint64_t> calls;       // of all processes since the setting
  std::atomic<uint64_t> generation;  // differs between two settings of the same position
};

inline constexpr size_t kMaxFaults = 64;

struct ControlBlock {
  std::atomic<uint64_t> folder;     // tells this machine's allocations from another's; never 0
  CallCounts calls;                 // of all processes
  std::atomic<int> lost[kMaxGpus];  // the CUresult of a lost device, 0 for a sound one
  std::atomic<uint64_t> charged[kMaxGpus];  // bytes; see StateFolder
  std::atomic<bool> streams_held;           // no stream begins a copy while this is set
  std::atomic<uint64_t> armed;              // a bit for each fault
  Fault faults[kMaxFaults];
};

// A file of zeros, made if it is missing, that holds a `Shared`; mapped as long as this lives.
template <typename Shared>
class SharedFile {
 public:
  // Not usable, `valid` tells, if the file cannot be made.
  explicit SharedFile(const std::string& path);
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  bool valid() const { return shared_ != nullptr; }
  Shared& operator*() const { return *shared_; }
  Shared* operator->() const { return shared_; }

 private:
  Shared* shared_ = nullptr;
};

// The calls of one process.
struct ProcessCalls {
  CallCounts calls;
};

extern template class SharedFile<ControlBlock>;
extern template class SharedFile<ProcessCalls>;

std::string ConfigPath(const std::string& folder);
std::string ControlPath(const std::string& folder);
std::string ProcessCallsPath(const std::string& folder, int pid);
std::string HangPath(const std::string& folder, size_t fault);

}  // namespace tenure::emulated
