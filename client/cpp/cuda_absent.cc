// Of a library that was built without NVIDIA's cuda.h.

#include "client/cpp/cuda_devices.h"
#include "client/cpp/error.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<Mapping>> CudaDevices::Reserve(const std::string& uuid, uint64_t) {
  return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                   "the memory is on the CUDA device " + uuid +
                       ", and this library was built without NVIDIA's cuda.h");
}

}  // namespace tenure::client
