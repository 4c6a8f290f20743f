// The entry points of the contexts that are current to a thread.

#include "tests/support/emulated_driver/cuda_driver.h"

namespace tenure::emulated {

extern "C" {

CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx) {
  return Call(EntryPoint::kCtxSetCurrent, [&](Driver& driver) {
    std::vector<PrimaryCtx*>& stack = CtxStack();
    if (ctx == nullptr) {
      if (!stack.empty()) stack.pop_back();
      return CUDA_SUCCESS;
    }
    PrimaryCtx* const known = driver.Ctx(ctx);
    if (known == nullptr || !known->active()) return CUDA_ERROR_INVALID_CONTEXT;
    if (stack.empty()) stack.push_back(nullptr);
    stack.back() = known;
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* pctx) {
  return Call(EntryPoint::kCtxGetCurrent, [&](Driver&) {
    if (pctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *pctx = CtxStack().empty() ? nullptr : CtxStack().back()->handle();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext ctx) {
  return Call(EntryPoint::kCtxPushCurrent, [&](Driver& driver) {
    if (ctx == nullptr) return CUDA_ERROR_INVALID_VALUE;
    PrimaryCtx* const known = driver.Ctx(ctx);
    if (known == nullptr || !known->active()) return CUDA_ERROR_INVALID_CONTEXT;
    CtxStack().push_back(known);
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext* pctx) {
  return Call(EntryPoint::kCtxPopCurrent, [&](Driver&) {
    if (CtxStack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx != nullptr) *pctx = CtxStack().back()->handle();
    CtxStack().pop_back();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  return CallInCtx(EntryPoint::kCtxGetDevice, [&](Driver&, PrimaryCtx& ctx) {
    if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *device = ctx.ordinal();
    return CUDA_SUCCESS;
  });
}

CUresult CUDAAPI cuCtxSynchronize() {
  return CallInCtx(EntryPoint::kCtxSynchronize, [](Driver&, PrimaryCtx& ctx) {
    ctx.SynchronizeAll();
    return ctx.Health();
  });
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  return Call(EntryPoint::kThreadExchangeStreamCaptureMode, [&](Driver&) {
    thread_local CUstreamCaptureMode t_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
        *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    std::swap(*mode, t_mode);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"

}  // namespace tenure::emulated
