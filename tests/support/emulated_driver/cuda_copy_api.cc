// The entry points that copy and fill.

#include "tests/support/emulated_driver/cuda_driver.h"
#include "tests/support/emulated_driver/cuda_transfer.h"

namespace tenure::emulated {
namespace {

CUresult Now(EntryPoint entry, const Place& to, const Place& from, size_t size) {
  return CallInCtx(entry, [&](Driver& driver, PrimaryCtx& ctx) {
    return CopyNow(driver, ctx, {to, from, size});
  });
}

CUresult InStream(EntryPoint entry, const Place& to, const Place& from, size_t size,
                  CUstream stream) {
  return CallInCtx(entry, [&](Driver& driver, PrimaryCtx& ctx) {
    return CopyAsync(driver, ctx, {to, from, size}, stream);
  });
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
  return CallInCtx(EntryPoint::kMemcpy, [&](Driver& driver, PrimaryCtx& ctx) {
    return CopyNow(driver, ctx,
                   {Place::Unified(driver, dst), Place::Unified(driver, src), ByteCount});
  });
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
                               CUstream hStream) {
  return CallInCtx(EntryPoint::kMemcpyAsync, [&](Driver& driver, PrimaryCtx& ctx) {
    return CopyAsync(driver, ctx,
                     {Place::Unified(driver, dst), Place::Unified(driver, src), ByteCount},
                     hStream);
  });
}

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount) {
  return Now(EntryPoint::kMemcpyHtoD, Place::Device(dstDevice), Place::Host(srcHost), ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoH(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
  return Now(EntryPoint::kMemcpyDtoH, Place::Host(dstHost), Place::Device(srcDevice), ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
  return Now(EntryPoint::kMemcpyDtoD, Place::Device(dstDevice), Place::Device(srcDevice),
             ByteCount);
}

CUresult CUDAAPI cuMemsetD8(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
  return Now(EntryPoint::kMemsetD8, Place::Device(dstDevice), Place::Fill(uc), N);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr dstDevice, const void* srcHost, size_t ByteCount,
                                   CUstream hStream) {
  return InStream(EntryPoint::kMemcpyHtoDAsync, Place::Device(dstDevice), Place::Host(srcHost),
                  ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void* dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  return InStream(EntryPoint::kMemcpyDtoHAsync, Place::Host(dstHost), Place::Device(srcDevice),
                  ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                   CUstream hStream) {
  return InStream(EntryPoint::kMemcpyDtoDAsync, Place::Device(dstDevice), Place::Device(srcDevice),
                  ByteCount, hStream);
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
                                 CUstream hStream) {
  return InStream(EntryPoint::kMemsetD8Async, Place::Device(dstDevice), Place::Fill(uc), N,
                  hStream);
}

}  // extern "C"

}  // namespace tenure::emulated
