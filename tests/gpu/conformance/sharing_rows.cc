// Memory as a file descriptor.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/unique_fd.h"
#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {
namespace {

constexpr auto kPosixFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

int Export(Scene& scene, const Handle& handle, UniqueFd& fd, unsigned long long flags = 0) {
  if (handle.created() != CUDA_SUCCESS) return handle.created();
  int number = -1;
  const int result =
      scene.cuda.MemExportToShareableHandle(&number, handle.value(), kPosixFd, flags);
  if (result == CUDA_SUCCESS) fd.Reset(number);
  return result;
}

int Import(Scene& scene, int fd, CUmemGenericAllocationHandle& handle) {
  return scene.cuda.MemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kPosixFd);
}

int TryImport(Scene& scene, int fd) {
  CUmemGenericAllocationHandle handle = 0;
  const int result = Import(scene, fd, handle);
  if (result == CUDA_SUCCESS) scene.cuda.MemRelease(handle);
  return result;
}

// Fills a granule, then frees everything of it but an exported fd, and reads it back through that.
int ReadThroughFdAlone(Scene& scene) {
  UniqueFd fd;
  {
    const Reservation reservation(scene, 1);
    const Handle handle(scene);
    const Mapping mapping(scene, handle, reservation.at());
    const int result = FirstFailure({mapping.mapped(), Export(scene, handle, fd),
                                     scene.cuda.MemsetD8(reservation.at(), 42, handle.size())});
    if (result != CUDA_SUCCESS) return result;
  }
  CUmemGenericAllocationHandle imported = 0;
  if (const int result = Import(scene, fd.get(), imported); result != CUDA_SUCCESS) return result;
  fd.Reset();
  const Reservation reservation(scene, 1);
  const CUmemAccessDesc desc = Access(scene, CU_MEM_ACCESS_FLAGS_PROT_READ);
  unsigned char byte = 0;
  const int mapped = scene.cuda.MemMap(reservation.at(), scene.granularity, 0, imported, 0);
  const int result =
      FirstFailure({mapped, scene.cuda.MemRelease(imported),
                    scene.cuda.MemSetAccess(reservation.at(), scene.granularity, &desc, 1),
                    scene.cuda.MemcpyDtoH(&byte, reservation.at() + scene.granularity - 1, 1)});
  if (mapped == CUDA_SUCCESS) scene.cuda.MemUnmap(reservation.at(), scene.granularity);
  if (result != CUDA_SUCCESS) return result;
  return byte == 42 ? CUDA_SUCCESS : kWrongValue;
}

// The documentation's refusals and what the operating system makes of a bad file descriptor.
const std::vector<int> kBadFd = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_PERMITTED,
                                 CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_HANDLE,
                                 CUDA_ERROR_OPERATING_SYSTEM};

}  // namespace

Table SharingRows() {
  return {
      {"cuMemExportToShareableHandle gives a file descriptor",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Handle handle(scene);
         UniqueFd fd;
         const int result = Export(scene, handle, fd);
         if (result != CUDA_SUCCESS) return result;
         return fcntl(fd.get(), F_GETFD) >= 0 ? CUDA_SUCCESS : kWrongValue;
       }},
      {"cuMemExportToShareableHandle refuses memory that was not created for it",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED},
       [](Scene& scene) -> int {
         const Handle handle(scene, 1, false);
         UniqueFd fd;
         return Export(scene, handle, fd);
       }},
      {"cuMemExportToShareableHandle refuses flags",
       {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_PERMITTED, CUDA_ERROR_NOT_SUPPORTED},
       [](Scene& scene) -> int {
         const Handle handle(scene);
         UniqueFd fd;
         return Export(scene, handle, fd, 1);
       }},
      {"cuMemImportFromShareableHandle takes one file descriptor twice",
       {CUDA_SUCCESS},
       [](Scene& scene) -> int {
         const Handle handle(scene);
         UniqueFd fd;
         return FirstFailure(
             {Export(scene, handle, fd), TryImport(scene, fd.get()), TryImport(scene, fd.get())});
       }},
      {"cuMemImportFromShareableHandle refuses what is no file descriptor", kBadFd,
       [](Scene& scene) -> int { return TryImport(scene, -1); }},
      {"cuMemImportFromShareableHandle refuses memory of the host", kBadFd,
       [](Scene& scene) -> int {
         const UniqueFd fd(memfd_create("no-gpu-memory", MFD_CLOEXEC));
         return TryImport(scene, fd.get());
       }},
      {"A file descriptor alone keeps the memory, and a mapping alone does",
       {CUDA_SUCCESS},
       ReadThroughFdAlone},
  };
}

}  // namespace tenure::conformance
