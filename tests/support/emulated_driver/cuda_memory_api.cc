// The entry points of cuMemAlloc's memory, of pinned host memory, and of what an address is.

#include "tests/support/emulated_driver/cuda_driver.h"

namespace tenure::emulated {
namespace {

CUresult Allocate(Driver& driver, PrimaryCtx& ctx, size_t size, CUdeviceptr& at) {
  if (size > ctx.config().memory.count()) return CUDA_ERROR_OUT_OF_MEMORY;
  AllocationRecord record;
  record.gpu = static_cast<uint32_t>(ctx.gpu());
  record.size = (size + kGranularity - 1) / kGranularity * kGranularity;
  record.charge = record.size;
  StateFolder::Refusal refusal = StateFolder::Refusal::kNone;
  std::optional<Share> share = driver.folder().Take(record, ctx.config().memory, refusal);
  if (!share) return CUDA_ERROR_OUT_OF_MEMORY;
  return driver.addresses.AddLinear(std::move(*share), size, ctx, at);
}

template <typename Value>
CUresult Give(void* into, Value value) {
  *static_cast<Value*>(into) = value;
  return CUDA_SUCCESS;
}

CUresult DeviceAttribute(const Driver& driver, const AddressFacts& facts,
                         CUpointer_attribute attribute, CUdeviceptr ptr, void* data) {
  if (attribute == CU_POINTER_ATTRIBUTE_MAPPED) {
    return Give<bool>(data, facts.allocation != nullptr);
  }
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR) return Give(data, facts.reservation);
  if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) {
    return Give<size_t>(data, facts.reservation_size);
  }
  if (facts.allocation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      // Virtual memory belongs to no context.
      return Give<CUcontext>(data, facts.ctx == nullptr ? nullptr : facts.ctx->handle());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Give<unsigned>(data, CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return Give<CUdeviceptr>(data, ptr);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give<int>(data, driver.GpuAt(facts.allocation->gpu())->ordinal());
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return CUDA_ERROR_INVALID_VALUE;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult HostAttribute(PrimaryCtx& ctx, CUpointer_attribute attribute, CUdeviceptr ptr,
                       void* data) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return Give<CUcontext>(data, ctx.handle());
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return Give<unsigned>(data, CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return Give<CUdeviceptr>(data, ptr);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return Give<int>(data, ctx.ordinal());
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return Give<bool>(data, true);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemGetInfo(size_t* free, size_t* total) {
  return CallInCtx(EntryPoint::kMemGetInfo, [&](Driver& driver, PrimaryCtx& ctx) {
    if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const tenure::Bytes memory = ctx.config().memory;
    *free = SaturatingSub(memory, driver.folder().InUse(ctx.gpu())).count();
    *total = memory.count();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr* dptr, size_t bytesize) {
  return CallInCtx(EntryPoint::kMemAlloc, [&](Driver& driver, PrimaryCtx& ctx) {
    if (dptr == nullptr || bytesize == 0) return CUDA_ERROR_INVALID_VALUE;
    return Allocate(driver, ctx, bytesize, *dptr);
  });
}

CUresult CUDAAPI cuMemFree(CUdeviceptr dptr) {
  return CallInCtx(EntryPoint::kMemFree, [&](Driver& driver, PrimaryCtx& ctx) {
    ctx.SynchronizeAll();
    return driver.addresses.FreeLinear(dptr);
  });
}

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return CallInCtx(EntryPoint::kMemHostAlloc, [&](Driver& driver, PrimaryCtx& ctx) {
    constexpr unsigned kKnown =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    if (pp == nullptr || bytesize == 0 || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    return driver.pinned.Allocate(bytesize, ctx, *pp);
  });
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  return CallInCtx(EntryPoint::kMemFreeHost, [&](Driver& driver, PrimaryCtx& ctx) {
    ctx.SynchronizeAll();
    return driver.pinned.Free(p);
  });
}

CUresult CUDAAPI cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return CallInCtx(EntryPoint::kMemHostRegister, [&](Driver& driver, PrimaryCtx& ctx) {
    constexpr unsigned kKnown = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
    if (p == nullptr || bytesize == 0 || (Flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    const bool read_only = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    return driver.pinned.Register(p, bytesize, read_only, ctx);
  });
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  return CallInCtx(EntryPoint::kMemHostUnregister, [&](Driver& driver, PrimaryCtx& ctx) {
    if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
    ctx.SynchronizeAll();
    return driver.pinned.Unregister(p);
  });
}

CUresult CUDAAPI cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return Call(EntryPoint::kPointerGetAttribute, [&](Driver& driver) {
    if (data == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (const auto facts = driver.addresses.FactsOf(ptr)) {
      return DeviceAttribute(driver, *facts, attribute, ptr, data);
    }
    PrimaryCtx* const pinned_in = driver.pinned.CtxOf(reinterpret_cast<const void*>(ptr));
    return pinned_in == nullptr ? CUDA_ERROR_INVALID_VALUE
                                : HostAttribute(*pinned_in, attribute, ptr, data);
  });
}

}  // extern "C"

}  // namespace tenure::emulated
