// Makes memory on the first GPU as often as told, each time with the pattern of a seed (0: none),
// sends "memory" with its fd, and keeps it until anything comes back.

#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/gpu.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {

int RunExporter(int socket, std::span<const std::string> arguments) {
  const Gpu gpu;
  const Bytes size(std::stoull(arguments[0]));
  const uint64_t seed = std::stoull(arguments[1]);
  for (int left = std::stoi(arguments[2]); left > 0; --left) {
    const CUmemGenericAllocationHandle handle = gpu.Create(size);
    if (seed != 0) {
      const Mapped mapped(gpu, handle, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
      gpu.Fill(mapped.at(), size, seed);
    }
    Send(socket, "memory", gpu.Export(handle).get());
    Receive(socket, "next");
    gpu.Release(handle);
  }
  return 0;
}

}  // namespace tenure::trial
