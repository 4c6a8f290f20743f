// Of a library that was built without NVIDIA's cuda.h.

#include "client/cpp/cuda_devices.h"
#include "client/cpp/cuda_events.h"
#include "client/cpp/error.h"

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

}  // namespace

std::shared_ptr<CudaEvents> DriverCudaEvents(std::shared_ptr<CudaDevice>) {
  return std::make_shared<NoEvents>();
}

absl::StatusOr<std::shared_ptr<Mapping>> CudaDevices::Reserve(const std::string& uuid, uint64_t) {
  return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                   "the memory is on the CUDA device " + uuid +
                       ", and this library was built without NVIDIA's cuda.h");
}

}  // namespace tenure::client
