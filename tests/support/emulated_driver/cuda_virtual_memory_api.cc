// The entry points of the virtual memory API.

#include <algorithm>
#include <string.h>

#include "tests/support/emulated_driver/cuda_driver.h"

namespace tenure::emulated {
namespace {

constexpr unsigned long long kAllHandleTypes =
    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 |
    CU_MEM_HANDLE_TYPE_WIN32_KMT | CU_MEM_HANDLE_TYPE_FABRIC;

// Whether the API can be used at all: addresses and handles belong to no device.
CUresult Supported(const Driver& driver) {
  const bool any = std::any_of(driver.gpus().begin(), driver.gpus().end(),
                               [](const auto& gpu) { return gpu->config().vmm; });
  return any ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED;
}

// As Call, where virtual memory is supported.
template <typename Body>
CUresult CallVmm(EntryPoint entry, const Body& body) {
  return Call(entry, [&](Driver& driver) {
    const CUresult supported = Supported(driver);
    return supported != CUDA_SUCCESS ? supported : body(driver);
  });
}

// Runs `body(allocation)` for what a handle stands for, unless its device is lost.
template <typename Body>
CUresult WithAllocation(Driver& driver, CUmemGenericAllocationHandle handle, const Body& body) {
  const std::shared_ptr<Allocation> allocation = driver.handles.Find(handle);
  if (allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult health = driver.GpuAt(allocation->gpu())->DeviceHealth();
  return health != CUDA_SUCCESS ? health : body(allocation);
}

// Finds the device that memory of these properties would lie on.
CUresult CheckProperties(const Driver& driver, const CUmemAllocationProp* prop, PrimaryCtx*& gpu) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto types = static_cast<unsigned long long>(prop->requestedHandleTypes);
  const auto& flags = prop->allocFlags;
  if ((types & ~kAllHandleTypes) != 0 || prop->win32HandleMetaData != nullptr ||
      flags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC || flags.gpuDirectRDMACapable > 1 ||
      std::any_of(std::begin(flags.reserved), std::end(flags.reserved),
                  [](unsigned char byte) { return byte != 0; })) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return types != 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  gpu = driver.Gpu(prop->location.id);
  if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const GpuConfig& config = gpu->config();
  const bool offered =
      config.vmm && flags.usage == 0 &&
      (types == 0 || (types == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR && config.posix_fd)) &&
      (flags.gpuDirectRDMACapable == 0 || config.gpu_direct_rdma);
  return offered ? gpu->DeviceHealth() : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult Create(Driver& driver, PrimaryCtx& gpu, size_t size, const CUmemAllocationProp& prop,
                CUmemGenericAllocationHandle& handle) {
  AllocationRecord record;
  record.gpu = static_cast<uint32_t>(gpu.gpu());
  record.size = size;
  record.charge = size;
  record.exportable = prop.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  record.gpu_direct_rdma = prop.allocFlags.gpuDirectRDMACapable;
  StateFolder::Refusal refusal = StateFolder::Refusal::kNone;
  std::optional<Share> share = driver.folder().Take(record, gpu.config().memory, refusal);
  if (!share) {
    return refusal == StateFolder::Refusal::kFull ? CUDA_ERROR_OUT_OF_MEMORY
                                                  : CUDA_ERROR_OPERATING_SYSTEM;
  }
  handle = driver.handles.Add(std::move(*share));
  return CUDA_SUCCESS;
}

CUresult CheckAccess(const Driver& driver, const CUmemAccessDesc& desc) {
  if (desc.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      (desc.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && desc.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
       desc.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const PrimaryCtx* const gpu = driver.Gpu(desc.location.id);
  return gpu == nullptr ? CUDA_ERROR_INVALID_DEVICE : gpu->DeviceHealth();
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                               CUmemAllocationGranularity_flags option) {
  return CallVmm(EntryPoint::kMemGetAllocationGranularity, [&](Driver& driver) {
    if (granularity == nullptr || (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
                                   option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    PrimaryCtx* gpu = nullptr;
    const CUresult checked = CheckProperties(driver, prop, gpu);
    if (checked == CUDA_SUCCESS) *granularity = kGranularity;
    return checked;
  });
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp* prop, unsigned long long flags) {
  return CallVmm(EntryPoint::kMemCreate, [&](Driver& driver) {
    if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    PrimaryCtx* gpu = nullptr;
    const CUresult checked = CheckProperties(driver, prop, gpu);
    if (checked != CUDA_SUCCESS) return checked;
    if (size == 0 || size % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
    return Create(driver, *gpu, size, *prop, *handle);
  });
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  return CallVmm(EntryPoint::kMemRelease, [&](Driver& driver) {
    return WithAllocation(driver, handle, [&](const auto&) {
      return driver.handles.Release(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    });
  });
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment,
                                     CUdeviceptr addr, unsigned long long flags) {
  return CallVmm(EntryPoint::kMemAddressReserve, [&](Driver& driver) {
    if (ptr == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return driver.addresses.Reserve(size, alignment, addr, *ptr);
  });
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return CallVmm(EntryPoint::kMemAddressFree,
                 [&](Driver& driver) { return driver.addresses.Free(ptr, size); });
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return CallVmm(EntryPoint::kMemMap, [&](Driver& driver) {
    if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
    return WithAllocation(driver, handle, [&](const auto& allocation) {
      return driver.addresses.Map(ptr, size, allocation);
    });
  });
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return CallVmm(EntryPoint::kMemUnmap, [&](Driver& driver) {
    const auto facts = driver.addresses.FactsOf(ptr);
    if (facts != nullptr && facts->allocation != nullptr) {
      const CUresult health = driver.GpuAt(facts->allocation->gpu())->DeviceHealth();
      if (health != CUDA_SUCCESS) return health;
    }
    return driver.addresses.Unmap(ptr, size);
  });
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc,
                                size_t count) {
  return CallVmm(EntryPoint::kMemSetAccess, [&](Driver& driver) {
    if (desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; ++i) {
      const CUresult checked = CheckAccess(driver, desc[i]);
      if (checked != CUDA_SUCCESS) return checked;
    }
    for (size_t i = 0; i < count; ++i) {
      const PrimaryCtx& gpu = *driver.Gpu(desc[i].location.id);
      const CUresult set = driver.addresses.SetAccess(ptr, size, gpu.gpu(), desc[i].flags);
      if (set != CUDA_SUCCESS) return set;
    }
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                CUdeviceptr ptr) {
  return CallVmm(EntryPoint::kMemGetAccess, [&](Driver& driver) {
    if (flags == nullptr || location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const PrimaryCtx* const gpu = driver.Gpu(location->id);
    if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    auto access = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    const CUresult got = driver.addresses.GetAccess(ptr, gpu->gpu(), access);
    if (got == CUDA_SUCCESS) *flags = access;
    return got;
  });
}

CUresult CUDAAPI cuMemExportToShareableHandle(void* shareableHandle,
                                              CUmemGenericAllocationHandle handle,
                                              CUmemAllocationHandleType handleType,
                                              unsigned long long flags) {
  return CallVmm(EntryPoint::kMemExportToShareableHandle, [&](Driver& driver) {
    if (shareableHandle == nullptr || flags != 0 ||
        handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return WithAllocation(driver, handle, [&](const auto& allocation) {
      if (allocation->share.record().exportable == 0) return CUDA_ERROR_INVALID_VALUE;
      tenure::UniqueFd fd = allocation->share.Export();
      if (!fd.valid()) return CUDA_ERROR_OPERATING_SYSTEM;
      const int number = fd.Release();
      memcpy(shareableHandle, &number, sizeof(number));
      return CUDA_SUCCESS;
    });
  });
}

CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                void* osHandle,
                                                CUmemAllocationHandleType shHandleType) {
  return CallVmm(EntryPoint::kMemImportFromShareableHandle, [&](Driver& driver) {
    if (handle == nullptr || shHandleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::optional<Share> share =
        driver.folder().Import(static_cast<int>(reinterpret_cast<intptr_t>(osHandle)));
    if (!share) return CUDA_ERROR_INVALID_VALUE;
    const PrimaryCtx* const gpu = driver.GpuAt(share->record().gpu);
    if (gpu == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const CUresult health = gpu->DeviceHealth();
    if (health == CUDA_SUCCESS) *handle = driver.handles.Add(std::move(*share));
    return health;
  });
}

CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return CallVmm(EntryPoint::kMemRetainAllocationHandle, [&](Driver& driver) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto facts = driver.addresses.FactsOf(reinterpret_cast<CUdeviceptr>(addr));
    if (facts == nullptr || facts->allocation == nullptr || facts->ctx != nullptr) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    driver.handles.Retain(facts->allocation);
    *handle = facts->allocation->handle;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                        CUmemGenericAllocationHandle handle) {
  return CallVmm(EntryPoint::kMemGetAllocationPropertiesFromHandle, [&](Driver& driver) {
    if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return WithAllocation(driver, handle, [&](const auto& allocation) {
      const AllocationRecord& record = allocation->share.record();
      *prop = {};
      prop->type = CU_MEM_ALLOCATION_TYPE_PINNED;
      prop->requestedHandleTypes = record.exportable != 0 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                                          : CU_MEM_HANDLE_TYPE_NONE;
      prop->location = {CU_MEM_LOCATION_TYPE_DEVICE, driver.GpuAt(record.gpu)->ordinal()};
      prop->allocFlags.gpuDirectRDMACapable = static_cast<unsigned char>(record.gpu_direct_rdma);
      return CUDA_SUCCESS;
    });
  });
}

}  // extern "C"

}  // namespace tenure::emulated
