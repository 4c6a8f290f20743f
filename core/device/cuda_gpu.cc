#include "core/device/cuda_gpu.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <algorithm>
#include <array>
#include <string_view>

namespace tenure {
namespace {

// Every Granule of ours is at least this.
constexpr Bytes kLeastGranule = MiB(2);

Status Refused(const CudaDriver& driver, const char* call, CUresult result) {
  const std::string cause = driver.Describe(result);
  return Error(Reason::kDriver, absl::StrCat(call, ": ", cause),
               {{"call", call}, {"cause", cause}});
}

// MIG instances are told by their name alone: "NVIDIA H200 MIG 1g.18gb".
std::string UuidText(const CUuuid& uuid, const std::string& name) {
  std::string text = name.find(" MIG ") == std::string::npos ? "GPU" : "MIG";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    const bool group = i == 0 || i == 4 || i == 6 || i == 8 || i == 10;
    absl::StrAppend(&text, group ? "-" : "",
                    absl::Hex(static_cast<unsigned char>(uuid.bytes[i]), absl::kZeroPad2));
  }
  return text;
}

CUmemAllocationProp AllocationOn(CUdevice device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  return properties;
}

StatusOr<CudaProperties> PropertiesOf(const CudaDriver& driver, int ordinal) {
  CudaProperties properties;
  const auto call = [&](const char* name, CUresult result) {
    return result == CUDA_SUCCESS ? absl::OkStatus() : Refused(driver, name, result);
  };
  TENURE_RETURN_IF_ERROR(call("cuDeviceGet", driver.cuDeviceGet(&properties.device, ordinal)));
  std::array<char, 256> name{};
  TENURE_RETURN_IF_ERROR(call(
      "cuDeviceGetName",
      driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()) - 1, properties.device)));
  properties.name = name.data();
  CUuuid uuid{};
  TENURE_RETURN_IF_ERROR(call("cuDeviceGetUuid", driver.cuDeviceGetUuid(&uuid, properties.device)));
  properties.uuid = UuidText(uuid, properties.name);
  size_t total = 0;
  TENURE_RETURN_IF_ERROR(
      call("cuDeviceTotalMem", driver.cuDeviceTotalMem(&total, properties.device)));
  properties.total = Bytes(total);

  const auto has = [&](CUdevice_attribute attribute) {
    int value = 0;
    return driver.cuDeviceGetAttribute(&value, attribute, properties.device) == CUDA_SUCCESS &&
           value != 0;
  };
  properties.virtual_memory = has(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
  properties.posix_fds = has(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
  properties.gpudirect = has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
  if (properties.virtual_memory && properties.posix_fds) {
    const CUmemAllocationProp allocation = AllocationOn(properties.device);
    size_t granularity = 0;
    TENURE_RETURN_IF_ERROR(call("cuMemGetAllocationGranularity",
                                driver.cuMemGetAllocationGranularity(
                                    &granularity, &allocation, CU_MEM_ALLOC_GRANULARITY_MINIMUM)));
    properties.granule = std::max(Bytes(granularity), kLeastGranule);
  }
  return properties;
}

}  // namespace

StatusOr<std::vector<CudaProperties>> ListCudaGpus(const CudaDriver& driver) {
  int count = 0;
  if (const CUresult result = driver.cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return Refused(driver, "cuDeviceGetCount", result);
  }
  std::vector<CudaProperties> gpus;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    TENURE_ASSIGN_OR_RETURN(CudaProperties properties, PropertiesOf(driver, ordinal));
    gpus.push_back(std::move(properties));
  }
  return gpus;
}

StatusOr<std::unique_ptr<CudaGpu>> CudaGpu::Open(const CudaDriver& driver,
                                                 const CudaProperties& properties,
                                                 const Clock& clock, Duration driver_timeout) {
  std::unique_ptr<CudaGpu> gpu(new CudaGpu(driver, properties, clock, driver_timeout));
  TENURE_RETURN_IF_ERROR(gpu->Call("cuDevicePrimaryCtxRetain",
                                   &CudaDriver::cuDevicePrimaryCtxRetain, &gpu->context_,
                                   properties.device));
  return gpu;
}

CudaGpu::~CudaGpu() {
  if (context_ == nullptr) return;
  // What the driver says to a process that leaves changes nothing.
  (void)Call("cuDevicePrimaryCtxRelease", &CudaDriver::cuDevicePrimaryCtxRelease,
             properties_.device);
}

CUmemAllocationProp CudaGpu::allocation() const { return AllocationOn(properties_.device); }

Status CudaGpu::Bind() { return Call("cuCtxSetCurrent", &CudaDriver::cuCtxSetCurrent, context_); }

Status CudaGpu::Lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

Status CudaGpu::Look() {
  const Instant now = clock_.Now();
  const MutexLock lock(mutex_);
  for (const RunningCall& call : calls_) {
    if (After(call.since, driver_timeout_) > now) continue;
    Lose(absl::StrCat(call.name, " has not returned for ",
                      std::chrono::duration_cast<std::chrono::seconds>(now - call.since).count(),
                      " s"));
  }
  return lost_;
}

bool CudaGpu::MeansLost(CUresult result) {
  switch (result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

CudaGpu::RunningCalls::iterator CudaGpu::Begin(const char* name) {
  const Instant now = clock_.Now();
  const MutexLock lock(mutex_);
  return calls_.insert(calls_.end(), RunningCall{.name = name, .since = now});
}

Status CudaGpu::End(RunningCalls::iterator call, CUresult result, bool loses) {
  const MutexLock lock(mutex_);
  const char* const name = call->name;
  calls_.erase(call);
  if (loses) Lose(absl::StrCat(name, ": ", driver_.Describe(result)));
  TENURE_RETURN_IF_ERROR(lost_);
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return Refused(driver_, name, result);
  return Error(Reason::kBackend, absl::StrCat(properties_.uuid, " has no memory left: ", name),
               {{"call", name}, {"uuid", properties_.uuid}});
}

void CudaGpu::Lose(const std::string& cause) {
  if (!lost_.ok()) return;
  lost_ = Error(Reason::kDeviceLost, absl::StrCat(properties_.uuid, " is lost: ", cause),
                {{"uuid", properties_.uuid}, {"cause", cause}});
}

}  // namespace tenure
