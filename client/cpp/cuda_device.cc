#include "client/cpp/cuda_device.h"

#include <algorithm>
#include <optional>
#include <stdlib.h>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

constexpr uint64_t kLeastGranule = uint64_t{2} << 20;
// Before the digits: "GPU-", "MIG-".
constexpr size_t kPrefix = 4;

// 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
std::string TextOf(const CUuuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += kDigits[byte / 16];
    text += kDigits[byte % 16];
  }
  return text;
}

absl::Status NotFound(const std::string& uuid, const std::string& visible) {
  const char* const variable = getenv("CUDA_VISIBLE_DEVICES");
  return MakeError(absl::StatusCode::kFailedPrecondition, kCudaDeviceNotFound,
                   "the memory is on the CUDA device " + uuid +
                       ", which this process does not see; it sees " +
                       (visible.empty() ? "none" : visible) + "; CUDA_VISIBLE_DEVICES is " +
                       (variable == nullptr ? "not set, so its container may lack the device"
                                            : "\"" + std::string(variable) + "\""),
                   {{"uuid", uuid}, {"visible", visible}});
}

absl::StatusOr<CUdevice> FindByUuid(const CudaDriver& driver, const std::string& uuid) {
  int count = 0;
  TENURE_CLIENT_RETURN_IF_ERROR(
      driver.Check(driver.cuDeviceGetCount(&count), "counting CUDA devices"));
  std::string visible;
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    CUuuid bytes{};
    TENURE_CLIENT_RETURN_IF_ERROR(
        driver.Check(driver.cuDeviceGet(&device, i), "finding a CUDA device"));
    TENURE_CLIENT_RETURN_IF_ERROR(driver.Check(driver.cuDeviceGetUuid_v2(&bytes, device),
                                               "reading the UUID of a CUDA device"));
    const std::string text = TextOf(bytes);
    if (uuid.size() > kPrefix && uuid.substr(kPrefix) == text) return device;
    visible += (visible.empty() ? "" : ", ") + text;
  }
  return NotFound(uuid, visible);
}

bool Has(const CudaDriver& driver, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

}  // namespace

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Open(
    std::shared_ptr<const CudaDriver> driver, const std::string& uuid) {
  TENURE_CLIENT_ASSIGN_OR_RETURN(const CUdevice ordinal, FindByUuid(*driver, uuid));
  if (!Has(*driver, ordinal, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) ||
      !Has(*driver, ordinal, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                     "the memory is on the CUDA device " + uuid +
                         ", of which the driver here cannot map virtual memory by descriptors");
  }
  const std::shared_ptr<CudaDevice> device(new CudaDevice(std::move(driver), ordinal));
  TENURE_CLIENT_RETURN_IF_ERROR(device->ReadGranule());
  TENURE_CLIENT_RETURN_IF_ERROR(
      device->driver_->Check(device->driver_->cuDevicePrimaryCtxRetain(&device->context_, ordinal),
                             "making a context on the CUDA device " + uuid));
  TENURE_CLIENT_RETURN_IF_ERROR(device->MakeStream());
  return device;
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr || abandoned_) return;
  if (stream_ != nullptr) {
    const CudaScope scope(*this);
    if (scope.status().ok()) driver_->cuStreamDestroy(stream_);
  }
  driver_->cuDevicePrimaryCtxRelease(ordinal_);
}

absl::Status CudaDevice::ReadGranule() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = ordinal_;
  size_t bytes = 0;
  TENURE_CLIENT_RETURN_IF_ERROR(driver_->Check(
      driver_->cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      "reading the granularity of a CUDA device"));
  granule_bytes_ = std::max<uint64_t>(bytes, kLeastGranule);
  return absl::OkStatus();
}

absl::StatusOr<CUmemGenericAllocationHandle> CudaDevice::Import(UniqueFd fd) const {
  CUmemGenericAllocationHandle handle = 0;
  TENURE_CLIENT_RETURN_IF_ERROR(driver_->Check(
      driver_->cuMemImportFromShareableHandle(&handle, std::bit_cast<void*>(intptr_t{fd.get()}),
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
      "importing a segment of a CUDA device"));
  return handle;
}

absl::Status CudaDevice::Allow(CUdeviceptr at, uint64_t bytes, CUmemAccess_flags access) const {
  CUmemAccessDesc allowed{};
  allowed.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allowed.location.id = ordinal_;
  allowed.flags = access;
  return driver_->Check(driver_->cuMemSetAccess(at, bytes, &allowed, 1),
                        "making memory of a CUDA device accessible");
}

absl::Status CudaDevice::Synchronize() const {
  const CUresult result = driver_->cuCtxSynchronize();
  if (result == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED ||
      result == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) {
    return absl::UnavailableError("a stream of the CUDA device is being captured");
  }
  return driver_->Check(result, "waiting for the work on a CUDA device");
}

absl::Status CudaDevice::MakeStream() {
  const CudaScope scope(*this);
  TENURE_CLIENT_RETURN_IF_ERROR(scope.status());
  return driver_->Check(driver_->cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                        "making a CUDA stream");
}

CudaScope::CudaScope(const CudaDevice& device) : driver_(device.driver()) {
  status_ = driver_.Check(driver_.cuCtxPushCurrent(device.context()),
                          "making the context of a CUDA device current");
  if (status_.ok()) driver_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
}

CudaScope::~CudaScope() {
  if (!status_.ok()) return;
  driver_.cuThreadExchangeStreamCaptureMode(&capture_mode_);
  CUcontext ours = nullptr;
  driver_.cuCtxPopCurrent(&ours);
}

}  // namespace tenure::client
