#include "client/cpp/cuda_events.h"

#include <mutex>
#include <string>
#include <utility>

#include "client/cpp/cuda_device.h"
#include "client/cpp/cuda_driver.h"
#include "client/cpp/error.h"

namespace tenure::client {
namespace {

bool Reached(const CudaDriver& driver, void* cu_event) {
  return driver.cuEventQuery(static_cast<CUevent>(cu_event)) == CUDA_SUCCESS;
}

class OnDevice final : public CudaEvents {
 public:
  explicit OnDevice(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}

  absl::Status Available() override { return absl::OkStatus(); }
  bool Reached(void* cu_event) override {
    const CudaScope scope(*device_);
    return scope.status().ok() && client::Reached(device_->driver(), cu_event);
  }

 private:
  const std::shared_ptr<CudaDevice> device_;
};

class OnHost final : public CudaEvents {
 public:
  absl::Status Available() override {
    const std::lock_guard lock(mutex_);
    if (driver_ != nullptr) return absl::OkStatus();
    absl::StatusOr<std::shared_ptr<const CudaDriver>> driver = CudaDriver::Open();
    if (!driver.ok()) {
      return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                       "nobody can tell when a CUDA event is reached: " +
                           std::string(driver.status().message()));
    }
    driver_ = *std::move(driver);
    return absl::OkStatus();
  }

  bool Reached(void* cu_event) override {
    const std::lock_guard lock(mutex_);
    // Asking disturbs no stream capture, and is not to be refused for one of another thread.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    driver_->cuThreadExchangeStreamCaptureMode(&mode);
    const bool reached = client::Reached(*driver_, cu_event);
    driver_->cuThreadExchangeStreamCaptureMode(&mode);
    return reached;
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<const CudaDriver> driver_;  // guarded by mutex_; null until it could be opened
};

}  // namespace

std::shared_ptr<CudaEvents> DriverCudaEvents(std::shared_ptr<CudaDevice> device) {
  if (device == nullptr) return std::make_shared<OnHost>();
  return std::make_shared<OnDevice>(std::move(device));
}

}  // namespace tenure::client
