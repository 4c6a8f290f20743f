#include "core/device/cuda_device.h"

namespace tenure {
namespace {

Status NotBuilt() {
  return Error(Reason::kBackend, "no CUDA devices: this program was built without NVIDIA's cuda.h");
}

}  // namespace

bool HasCudaBackend() { return false; }

StatusOr<std::vector<FoundGpu>> FindGpus() { return NotBuilt(); }

std::vector<CudaFinding> CheckCuda() {
  return {{CudaFinding::Verdict::kBad, "backend", std::string(NotBuilt().message())}};
}

StatusOr<std::unique_ptr<Device>> MakeCudaDevice(const CudaDeviceOptions&, const Clock&) {
  return NotBuilt();
}

}  // namespace tenure
