// What ends a context.

#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {
namespace {

// What a device tells of a forbidden access: by its number, or as a failure of what ran.
const std::vector<int> kIllegalAccess = {CUDA_ERROR_ILLEGAL_ADDRESS, CUDA_ERROR_LAUNCH_FAILED};

}  // namespace

Table ContextsEnd() {
  return {
      {"Writing through a read-only mapping is an illegal access", kIllegalAccess,
       [](Scene& scene) -> int {
         const Reservation reservation(scene, 1);
         const Handle handle(scene);
         const Mapping mapping(scene, handle, reservation.at(), CU_MEM_ACCESS_FLAGS_PROT_READ);
         return FirstFailure({mapping.mapped(),
                              scene.cuda.MemsetD8(reservation.at(), 1, handle.size()),
                              scene.cuda.CtxSynchronize()});
       }},
      {"cuCtxSynchronize tells of it again", kIllegalAccess,
       [](Scene& scene) -> int { return scene.cuda.CtxSynchronize(); }},
      {"cuMemAlloc is refused in the context that it ended", kIllegalAccess,
       [](Scene& scene) -> int {
         CUdeviceptr at = 0;
         return scene.cuda.MemAlloc(&at, scene.granularity);
       }},
  };
}

}  // namespace tenure::conformance
