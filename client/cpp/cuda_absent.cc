// Of a library that was built without NVIDIA's cuda.h.

#include "client/cpp/error.h"
#include "client/cpp/lazy_cuda_device.h"

namespace tenure::client {

absl::StatusOr<std::shared_ptr<Mapping>> LazyCudaDevice::Reserve(uint64_t) {
  return MakeError(absl::StatusCode::kFailedPrecondition, kCudaUnavailable,
                   "the memory is on the CUDA device " + uuid_ +
                       ", and this library was built without NVIDIA's cuda.h");
}

}  // namespace tenure::client
