// The entry points that tell what a device is, and those of its primary context.

#include <algorithm>
#include <string.h>
#include <string>

#include "tests/support/emulated_driver/cuda_attributes.h"
#include "tests/support/emulated_driver/cuda_driver.h"

namespace tenure::emulated {
namespace {

// Runs `body(ctx)` for the device of an ordinal.
template <typename Body>
CUresult CallOnDevice(EntryPoint entry, CUdevice ordinal, const Body& body) {
  return Call(entry, [&](Driver& driver) {
    PrimaryCtx* const ctx = driver.Gpu(ordinal);
    return ctx == nullptr ? CUDA_ERROR_INVALID_DEVICE : body(driver, *ctx);
  });
}

CUresult CopyUuid(const std::string& name, CUuuid* uuid) {
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  memcpy(uuid->bytes, UuidBytes(name)->data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  return Call(EntryPoint::kDeviceGetCount, [&](Driver& driver) {
    if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *count = static_cast<int>(driver.gpus().size());
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  return CallOnDevice(EntryPoint::kDeviceGet, ordinal, [&](Driver&, PrimaryCtx& ctx) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ctx.ordinal();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetName(char* name, int len, CUdevice dev) {
  return CallOnDevice(EntryPoint::kDeviceGetName, dev, [&](Driver&, PrimaryCtx& ctx) {
    if (name == nullptr || len <= 0) return CUDA_ERROR_INVALID_VALUE;
    const std::string& whole = ctx.config().name;
    const size_t length = std::min(whole.size(), static_cast<size_t>(len) - 1);
    memcpy(name, whole.data(), length);
    name[length] = '\0';
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice dev) {
  return CallOnDevice(EntryPoint::kDeviceGetUuid, dev,
                      [&](Driver&, PrimaryCtx& ctx) { return CopyUuid(ctx.config().uuid, uuid); });
}

// The first version knows no MIG instance, only the GPU that it is a part of.
#undef cuDeviceGetUuid
CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice dev) {
  return CallOnDevice(EntryPoint::kDeviceGetUuid, dev, [&](Driver&, PrimaryCtx& ctx) {
    const std::string& parent = ctx.config().parent_uuid;
    return CopyUuid(parent.empty() ? ctx.config().uuid : parent, uuid);
  });
}

CUresult CUDAAPI cuDeviceTotalMem(size_t* bytes, CUdevice dev) {
  return CallOnDevice(EntryPoint::kDeviceTotalMem, dev, [&](Driver&, PrimaryCtx& ctx) {
    if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *bytes = ctx.config().memory.count();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDeviceGetAttribute(int* pi, CUdevice_attribute attrib, CUdevice dev) {
  return CallOnDevice(EntryPoint::kDeviceGetAttribute, dev, [&](Driver&, PrimaryCtx& ctx) {
    if (pi == nullptr || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    *pi = AttributeOf(ctx.config(), attrib);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* pctx, CUdevice dev) {
  return CallOnDevice(EntryPoint::kDevicePrimaryCtxRetain, dev, [&](Driver&, PrimaryCtx& ctx) {
    if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult retained = ctx.Retain();
    if (retained == CUDA_SUCCESS) *pctx = ctx.handle();
    return retained;
  });
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice dev) {
  return CallOnDevice(EntryPoint::kDevicePrimaryCtxRelease, dev,
                      [&](Driver& driver, PrimaryCtx& ctx) {
                        bool last = false;
                        const CUresult released = ctx.Release(last);
                        if (last) driver.Reset(ctx);
                        return released;
                      });
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int* flags, int* active) {
  return CallOnDevice(EntryPoint::kDevicePrimaryCtxGetState, dev, [&](Driver&, PrimaryCtx& ctx) {
    if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *flags = CU_CTX_SCHED_AUTO;
    *active = ctx.active() ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace tenure::emulated
