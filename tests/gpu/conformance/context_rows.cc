// Initialisation, devices and contexts.

#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {
namespace {

int CreateUnchecked(Scene& scene) {
  const CUmemAllocationProp properties = Properties(scene);
  CUmemGenericAllocationHandle handle = 0;
  return scene.cuda.MemCreate(&handle, size_t{2} << 20, &properties, 0);
}

int GetMemory(Scene& scene) {
  size_t free = 0;
  size_t total = 0;
  const int result = scene.cuda.MemGetInfo(&free, &total);
  if (result != CUDA_SUCCESS) return result;
  return free <= total && total > 0 ? CUDA_SUCCESS : kWrongValue;
}

// What a child that was forked just now answers to `call`.
int InForkedChild(Scene& scene, int (*call)(Scene&)) {
  int ends[2];
  if (pipe(ends) != 0) return kWrongValue;
  const pid_t child = fork();
  if (child == 0) {
    const int answer = call(scene);
    _exit(write(ends[1], &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1);
  }
  close(ends[1]);
  int answer = kWrongValue;
  if (read(ends[0], &answer, sizeof(answer)) != sizeof(answer)) answer = kWrongValue;
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return answer;
}

}  // namespace

Table BeforeInitialisation() {
  return {
      {"cuDeviceGetCount is refused before cuInit",
       {CUDA_ERROR_NOT_INITIALIZED},
       [](Scene& scene) -> int {
         int count = 0;
         return scene.cuda.DeviceGetCount(&count);
       }},
      {"cuMemCreate is refused before cuInit", {CUDA_ERROR_NOT_INITIALIZED}, CreateUnchecked},
      {"cuMemGetInfo is refused before cuInit", {CUDA_ERROR_NOT_INITIALIZED}, GetMemory},
      {"cuInit refuses flags",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return scene.cuda.Init(1); }},
      {"cuInit is accepted",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int { return scene.cuda.Init(0); }},
      {"cuInit is accepted again",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int { return scene.cuda.Init(0); }},
  };
}

Table WithoutContext() {
  return {
      {"cuDriverGetVersion refuses no place for it",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return scene.cuda.DriverGetVersion(nullptr); }},
      {"cuGetErrorName names an error",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const char* name = nullptr;
         const int result = scene.cuda.GetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name);
         if (result != CUDA_SUCCESS) return result;
         return strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0 ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuGetErrorName refuses what is no error",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const char* name = nullptr;
         return scene.cuda.GetErrorName(static_cast<CUresult>(998), &name);
       }},
      {"cuGetProcAddress finds an entry point by its name without version",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         void* function = nullptr;
         const int result = scene.cuda.GetProcAddress("cuMemCreate", &function, 12000, 0, nullptr);
         if (result != CUDA_SUCCESS) return result;
         return function != nullptr ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuGetProcAddress refuses a version above the driver's",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         void* function = nullptr;
         return scene.cuda.GetProcAddress("cuMemCreate", &function, 999000, 0, nullptr);
       }},
      {"cuDeviceGet refuses an ordinal that is none",
       {CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         CUdevice device = 0;
         return scene.cuda.DeviceGet(&device, 9999);
       }},
      {"cuDeviceGetUuid tells one",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         CUuuid uuid{};
         return scene.cuda.DeviceGetUuid(&uuid, scene.device);
       }},
      {"cuDeviceGetAttribute tells that virtual memory is supported",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         int supported = 0;
         const int result = scene.cuda.DeviceGetAttribute(
             &supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, scene.device);
         if (result != CUDA_SUCCESS) return result;
         return supported == 1 ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuDevicePrimaryCtxGetState tells that nobody retained the context",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         unsigned flags = 0;
         int active = -1;
         const int result = scene.cuda.DevicePrimaryCtxGetState(scene.device, &flags, &active);
         if (result != CUDA_SUCCESS) return result;
         return active == 0 ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuDevicePrimaryCtxRelease is refused without a retain",
       {CUDA_ERROR_INVALID_CONTEXT},
       [](Scene& scene) -> int { return scene.cuda.DevicePrimaryCtxRelease(scene.device); }},
      {"cuMemGetInfo is refused without a context", {CUDA_ERROR_INVALID_CONTEXT}, GetMemory},
      {"cuMemAlloc is refused without a context",
       {CUDA_ERROR_INVALID_CONTEXT},
       [](Scene& scene) -> int {
         CUdeviceptr at = 0;
         return scene.cuda.MemAlloc(&at, 4096);
       }},
      {"cuStreamCreate is refused without a context",
       {CUDA_ERROR_INVALID_CONTEXT},
       [](Scene& scene) -> int {
         CUstream stream = nullptr;
         return scene.cuda.StreamCreate(&stream, CU_STREAM_NON_BLOCKING);
       }},
      {"cuEventCreate is refused without a context",
       {CUDA_ERROR_INVALID_CONTEXT},
       [](Scene& scene) -> int {
         CUevent event = nullptr;
         return scene.cuda.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
       }},
      {"cuCtxPopCurrent is refused without a context",
       {CUDA_ERROR_INVALID_CONTEXT},
       [](Scene& scene) -> int { return scene.cuda.CtxPopCurrent(nullptr); }},
      {"cuCtxGetCurrent tells that there is none",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         CUcontext context = reinterpret_cast<CUcontext>(&scene);
         const int result = scene.cuda.CtxGetCurrent(&context);
         if (result != CUDA_SUCCESS) return result;
         return context == nullptr ? CUDA_SUCCESS : kWrongValue;
       }},
  };
}

Table ContextRows() {
  return {
      {"cuMemGetInfo tells what is free", {CUDA_SUCCESS}, GetMemory},
      {"cuCtxGetDevice tells the context's device",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         CUdevice device = -1;
         const int result = scene.cuda.CtxGetDevice(&device);
         if (result != CUDA_SUCCESS) return result;
         return device == scene.device ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuDevicePrimaryCtxRetain gives the same context again",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         CUcontext context = nullptr;
         const int result = scene.cuda.DevicePrimaryCtxRetain(&context, scene.device);
         if (result != CUDA_SUCCESS) return result;
         scene.cuda.DevicePrimaryCtxRelease(scene.device);
         return context == scene.context ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuMemGetInfo is refused in a thread that has no context",
       {CUDA_ERROR_INVALID_CONTEXT},
       [](Scene& scene) -> int {
         int result = CUDA_SUCCESS;
         std::thread([&] { result = GetMemory(scene); }).join();
         return result;
       }},
      {"cuCtxPushCurrent and cuCtxPopCurrent form a stack",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         CUcontext popped = nullptr;
         CUcontext current = nullptr;
         const int result =
             FirstFailure({scene.cuda.CtxPushCurrent(scene.context),
                           scene.cuda.CtxPopCurrent(&popped), scene.cuda.CtxGetCurrent(&current)});
         if (result != CUDA_SUCCESS) return result;
         return popped == scene.context && current == scene.context ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuThreadExchangeStreamCaptureMode swaps the mode",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
         const int result = scene.cuda.ThreadExchangeStreamCaptureMode(&mode);
         const bool was_global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
         if (result != CUDA_SUCCESS) return result;
         scene.cuda.ThreadExchangeStreamCaptureMode(&mode);
         return was_global && mode == CU_STREAM_CAPTURE_MODE_RELAXED ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuMemGetInfo is refused in a child that was forked after cuInit",
       {CUDA_ERROR_NOT_INITIALIZED},
       [](Scene& scene) -> int { return InForkedChild(scene, GetMemory); }},
      {"cuInit is refused in a child that was forked after cuInit",
       {CUDA_ERROR_NOT_INITIALIZED},
       [](Scene& scene) -> int {
         return InForkedChild(scene, [](Scene& child) -> int { return child.cuda.Init(0); });
       }},
      {"The parent goes on after a fork", {CUDA_SUCCESS}, GetMemory},
  };
}

}  // namespace tenure::conformance
