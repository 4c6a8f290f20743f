// Of a library that was built without NVIDIA's cuda.h.

#include "client/cpp/cuda_events.h"
#include "client/cpp/error.h"
#include "client/cpp/lazy_cuda_device.h"

namespace tenure::client {
namespace {

class NoEvents final : public CudaEvents {
 public:
  absl::Status Available() override {
    return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                     "nobody can tell when a CUDA event is reached: this library was built without "
                     "NVIDIA's cuda.h");
  }
  bool Reached(void*) override { return false; }
};

absl::Status Absent(const std::string& uuid) {
  return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                   "the memory is on the CUDA device " + uuid +
                       ", and this library was built without NVIDIA's cuda.h");
}

}  // namespace

std::shared_ptr<CudaEvents> DriverCudaEvents(std::shared_ptr<CudaDevice>) {
  return std::make_shared<NoEvents>();
}

absl::StatusOr<std::shared_ptr<Mapping>> LazyCudaDevice::Reserve(uint64_t) { return Absent(uuid_); }

absl::StatusOr<std::shared_ptr<PoolMapping>> LazyCudaDevice::ReservePool(uint64_t) {
  return Absent(uuid_);
}

}  // namespace tenure::client
