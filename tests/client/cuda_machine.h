#pragma once

// The machine that every test of a program sees, and memory on it as a daemon would give it.

#include <cstddef>
#include <cstdint>
#include <cuda.h>
#include <memory>
#include <string>
#include <vector>

#include "client/cpp/cuda_device.h"
#include "client/cpp/cuda_driver.h"
#include "client/cpp/unique_fd.h"
#include "tests/support/emulated_gpu.h"

namespace tenure::client {

// The GPUs by their position: two that serve, one without virtual memory, and one that is too small
// for a context.
inline constexpr size_t kFirstGpu = 0;
inline constexpr size_t kSecondGpu = 1;
inline constexpr size_t kGpuWithoutVmm = 2;
inline constexpr size_t kTinyGpu = 3;

std::string UuidOf(size_t gpu);

// Made by the first call, in a folder that the process removes at its end.
EmulatedGpu& Machine();
// Of Machine(); cuInit may have been told to fail before.
std::shared_ptr<const CudaDriver> Driver();
// Opened anew each time, so that its context ends with it.
std::shared_ptr<CudaDevice> Device(size_t gpu);

// Calls an entry point of the driver, of the library's or not: TENURE_CALL_DRIVER(cuMemRelease,
// handle). Throws std::runtime_error unless it succeeds.
void* FindInDriver(const char* name);
void ExpectSuccess(const char* name, CUresult result);
template <typename Entry, typename... Arguments>
void CallDriver(const char* name, Arguments... arguments) {
  ExpectSuccess(name, reinterpret_cast<Entry>(FindInDriver(name))(arguments...));
}
// The header renames some entry points to a later version, and so does this.
#define TENURE_DRIVER_NAME(entry) #entry
#define TENURE_CALL_DRIVER(entry, ...) \
  CallDriver<decltype(&::entry)>(TENURE_DRIVER_NAME(entry), __VA_ARGS__)

// Memory of one GPU, kept by its handle alone.
class CudaSegment {
 public:
  // Full of one byte.
  CudaSegment(const std::shared_ptr<CudaDevice>& device, uint64_t bytes, unsigned char fill);
  ~CudaSegment();
  CudaSegment(const CudaSegment&) = delete;
  CudaSegment& operator=(const CudaSegment&) = delete;

  UniqueFd Export() const;

 private:
  CUmemGenericAllocationHandle handle_ = 0;
};

// How many descriptors this process has open.
size_t OpenFds();

}  // namespace tenure::client
