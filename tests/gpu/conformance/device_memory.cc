#include "tests/gpu/conformance/device_memory.h"

namespace tenure::conformance {

CUmemAllocationProp Properties(const Scene& scene, bool exportable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, scene.device};
  properties.requestedHandleTypes =
      exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}

CUmemAccessDesc Access(const Scene& scene, CUmemAccess_flags flags) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, scene.device}, flags};
}

int FirstFailure(std::initializer_list<int> results) {
  for (const int result : results) {
    if (result != CUDA_SUCCESS) return result;
  }
  return CUDA_SUCCESS;
}

Handle::Handle(Scene& scene, size_t granules, bool exportable)
    : scene_(scene), size_(granules * scene.granularity) {
  const CUmemAllocationProp properties = Properties(scene, exportable);
  created_ = scene.cuda.MemCreate(&value_, size_, &properties, 0);
}

Handle::~Handle() {
  if (created_ == CUDA_SUCCESS) scene_.cuda.MemRelease(value_);
}

Reservation::Reservation(Scene& scene, size_t granules)
    : scene_(scene), granularity_(scene.granularity), size_(granules * scene.granularity) {
  reserved_ = scene.cuda.MemAddressReserve(&at_, size_, 0, 0, 0);
}

Reservation::~Reservation() {
  if (reserved_ == CUDA_SUCCESS) scene_.cuda.MemAddressFree(at_, size_);
}

Mapping::Mapping(Scene& scene, const Handle& handle, CUdeviceptr at, CUmemAccess_flags access)
    : scene_(scene), at_(at), size_(handle.size()), mapped_(handle.created()) {
  if (mapped_ == CUDA_SUCCESS) mapped_ = scene.cuda.MemMap(at, size_, 0, handle.value(), 0);
  if (mapped_ != CUDA_SUCCESS || access == CU_MEM_ACCESS_FLAGS_PROT_NONE) return;
  const CUmemAccessDesc desc = Access(scene, access);
  mapped_ = scene.cuda.MemSetAccess(at, size_, &desc, 1);
}

Mapping::~Mapping() { scene_.cuda.MemUnmap(at_, size_); }

}  // namespace tenure::conformance
