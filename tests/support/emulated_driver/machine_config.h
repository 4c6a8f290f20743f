#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/units.h"

namespace tenure::emulated {

// One GPU, or one MIG instance, of the emulated machine.
struct GpuConfig {
  std::string name = "Tenure Emulated GPU";
  // "GPU-" or "MIG-" and 32 hexadecimal digits in groups; made from the position unless given.
  std::string uuid;
  // Of a MIG instance: the GPU that it is a part of, which cuDeviceGetUuid's first version tells.
  std::string parent_uuid;
  Bytes memory = GiB(4);
  bool vmm = true;       // the virtual memory API
  bool posix_fd = true;  // export as a file descriptor
  bool gpu_direct_rdma = true;
  bool integrated = false;
  int compute_major = 9;
  int compute_minor = 0;
  int multiprocessors = 132;
  int pci_bus = 0;  // position + 1 unless given; the domain and the device are 0
};

// The emulated machine, as the file `config` of its state folder tells it: lines of KEY=VALUE, `#`
// starts a comment. A folder without the file is a machine of one GPU with defaults.
//
//   driver_version=13000          what cuDriverGetVersion tells
//   context_cost=67108864         bytes that each process's context takes on its device
//   copy_delay_us=100             how long a stream waits before each copy
//   devices=2                     how many; each key below is for one, counted from 0
//   device0.name=Some GPU
//   device0.uuid=GPU-7e4e5e00-0000-4000-8000-000000000000
//   device0.parent_uuid=          empty, or the GPU's uuid if this is a MIG instance
//   device0.memory=4294967296     bytes
//   device0.vmm=1                 0 or 1, as the next three
//   device0.posix_fd=1
//   device0.gpu_direct_rdma=1
//   device0.integrated=0
//   device0.compute_major=9
//   device0.compute_minor=0
//   device0.multiprocessors=132
//   device0.pci_bus=1
struct MachineConfig {
  int driver_version = 13000;
  Bytes context_cost = MiB(64);
  Duration copy_delay = std::chrono::microseconds(100);
  std::vector<GpuConfig> gpus = {GpuConfig()};
};

inline constexpr size_t kMaxGpus = 16;

// The text of a configuration file.
std::string FormatConfig(const MachineConfig& config);

// Reads it back, with every uuid and bus filled in; nothing if a line or a value is not understood.
std::optional<MachineConfig> ParseConfig(const std::string& text);

// The 16 bytes that a "GPU-..." or "MIG-..." name stands for; nothing if it is none.
std::optional<std::string> UuidBytes(const std::string& uuid);

}  // namespace tenure::emulated
