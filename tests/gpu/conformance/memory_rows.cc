// Linear memory, pinned host memory, and what an address is.

#include <stdlib.h>
#include <vector>

#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {
namespace {

constexpr size_t kPages = 4 * 4096;

int TryAlloc(Scene& scene, size_t size) {
  CUdeviceptr at = 0;
  const int result = scene.cuda.MemAlloc(&at, size);
  if (result == CUDA_SUCCESS) scene.cuda.MemFree(at);
  return result;
}

// Host pages of their own, which may be registered.
class HostPages {
 public:
  HostPages() : at_(aligned_alloc(4096, kPages)) {}
  ~HostPages() { free(at_); }
  HostPages(const HostPages&) = delete;
  HostPages& operator=(const HostPages&) = delete;
  void* at() const { return at_; }

 private:
  void* const at_;
};

Table LinearRows() {
  return {
      {"cuMemAlloc refuses no bytes",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int { return TryAlloc(scene, 0); }},
      {"cuMemAlloc refuses more than the device has",
       {CUDA_ERROR_OUT_OF_MEMORY},
       [](Scene& scene) -> int {
         size_t total = 0;
         const int result = scene.cuda.DeviceTotalMem(&total, scene.device);
         return result != CUDA_SUCCESS ? result : TryAlloc(scene, total + scene.granularity);
       }},
      {"cuMemFree refuses what was not allocated by cuMemAlloc",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         return granule.ready() != CUDA_SUCCESS ? granule.ready()
                                                : scene.cuda.MemFree(granule.at());
       }},
      {"Copies go round from the host and back",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         std::vector<unsigned char> there(100000);
         for (size_t i = 0; i < there.size(); ++i) there[i] = static_cast<unsigned char>(i * 7);
         std::vector<unsigned char> back(there.size());
         const CUdeviceptr middle = granule.at() + granule.size() / 2;
         const int result = FirstFailure(
             {granule.ready(), scene.cuda.MemcpyHtoD(granule.at(), there.data(), there.size()),
              scene.cuda.MemcpyDtoD(middle, granule.at(), there.size()),
              scene.cuda.MemcpyDtoH(back.data(), middle, back.size())});
         if (result != CUDA_SUCCESS) return result;
         return back == there ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuPointerGetAttribute tells whose a device address is",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         int ordinal = -1;
         unsigned type = 0;
         const int result =
             FirstFailure({granule.ready(),
                           scene.cuda.PointerGetAttribute(
                               &ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, granule.at()),
                           scene.cuda.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                                          granule.at())});
         if (result != CUDA_SUCCESS) return result;
         return ordinal == scene.device && type == CU_MEMORYTYPE_DEVICE ? CUDA_SUCCESS
                                                                        : kWrongValue;
       }},
      {"cuPointerGetAttribute refuses memory that CUDA does not know",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const HostPages pages;
         unsigned type = 0;
         return scene.cuda.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                               reinterpret_cast<CUdeviceptr>(pages.at()));
       }},
  };
}

Table PinnedRows() {
  return {
      {"cuMemHostAlloc refuses flags that are none",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         void* at = nullptr;
         return scene.cuda.MemHostAlloc(&at, kPages, 0x100);
       }},
      {"cuMemHostRegister takes pages, and cuMemHostUnregister gives them back",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const HostPages pages;
         return FirstFailure({scene.cuda.MemHostRegister(pages.at(), kPages, 0),
                              scene.cuda.MemHostUnregister(pages.at())});
       }},
      {"cuMemHostRegister refuses pages that are registered",
       {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED},
       [](Scene& scene) -> int {
         const HostPages pages;
         if (const int first = scene.cuda.MemHostRegister(pages.at(), kPages, 0);
             first != CUDA_SUCCESS) {
           return first;
         }
         const int second = scene.cuda.MemHostRegister(pages.at(), kPages, 0);
         scene.cuda.MemHostUnregister(pages.at());
         return second;
       }},
      {"cuMemHostRegister refuses no bytes",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const HostPages pages;
         return scene.cuda.MemHostRegister(pages.at(), 0, 0);
       }},
      {"cuMemHostUnregister refuses pages that are not registered",
       {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const HostPages pages;
         return scene.cuda.MemHostUnregister(pages.at());
       }},
      {"cuMemFreeHost refuses what it did not allocate",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const HostPages pages;
         return scene.cuda.MemFreeHost(pages.at());
       }},
      {"Copies refuse host memory that is registered in part",
       {CUDA_ERROR_INVALID_VALUE},
       [](Scene& scene) -> int {
         const Granule granule(scene);
         const HostPages pages;
         const int ready =
             FirstFailure({granule.ready(), scene.cuda.MemHostRegister(pages.at(), kPages / 2, 0)});
         if (ready != CUDA_SUCCESS) return ready;
         const int result = scene.cuda.MemcpyHtoD(granule.at(), pages.at(), kPages);
         scene.cuda.MemHostUnregister(pages.at());
         return result;
       }},
  };
}

}  // namespace

Table MemoryRows() {
  Table all = LinearRows();
  const Table pinned = PinnedRows();
  all.insert(all.end(), pinned.begin(), pinned.end());
  return all;
}

}  // namespace tenure::conformance
