// Calls the driver as another process tells it to: one command a message, answered by a message of
// the CUresult and what the call gave. Numbers are decimal.
//
//   init                          cuInit
//   count                         cuDeviceGetCount: how many
//   uuid DEVICE                   cuDeviceGetUuid_v2: the last byte
//   old_uuid DEVICE               the same of the function that CUDA 11.0 had
//   ctx DEVICE                    retains the primary context and makes it current
//   create DEVICE SIZE EXPORT     cuMemCreate: the handle
//   release HANDLE                cuMemRelease
//   export HANDLE                 with the fd
//   import                        of the fd that came along, which is then closed: the handle
//   map HANDLE SIZE ACCESS DEVICE reserves, maps and sets access: the address
//   unmap AT SIZE                 cuMemUnmap
//   alloc SIZE                    cuMemAlloc: the address
//   info                          cuMemGetInfo: free and total
//   set AT SIZE BYTE              cuMemsetD8
//   set_async AT SIZE BYTE        cuMemsetD8Async in a stream of its own
//   copy_async TO FROM SIZE       cuMemcpyDtoDAsync likewise
//   get AT                        cuMemcpyDtoH of a byte: the byte
//   keep                          keeps the fd that came along
//   sync                          cuCtxSynchronize
//   ordinal AT                    cuPointerGetAttribute's device ordinal
//   handle_device HANDLE          the device in cuMemGetAllocationPropertiesFromHandle
//   fork                          forks; the child's answers to cuInit, cuDeviceGetCount,
//                                 cuCtxGetCurrent, cuMemGetInfo and cuMemRelease
//   churn DEVICE SIZE             creates, exports, imports, maps and frees until that fails

#include <functional>
#include <map>
#include <sstream>
#include <stdlib.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

#include "tests/emulated_driver/fd_message.h"
#include "tests/support/emulated_driver/cuda_types.h"

namespace tenure::emulated {
namespace {

using Words = std::vector<uint64_t>;

struct Answer {
  CUresult result;
  Words values = {};
  UniqueFd fd = UniqueFd();
};

CUmemAllocationProp Properties(uint64_t device, bool exportable) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(device)};
  properties.requestedHandleTypes =
      exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  return properties;
}

Answer Count() {
  int count = 0;
  const CUresult result = cuDeviceGetCount(&count);
  return {result, {static_cast<uint64_t>(count)}};
}

Answer Uuid(uint64_t device) {
  CUuuid uuid{};
  const CUresult result = cuDeviceGetUuid(&uuid, static_cast<int>(device));
  return {result, {static_cast<unsigned char>(uuid.bytes[15])}};
}

Answer OldUuid(uint64_t device) {
  void* function = nullptr;
  const CUresult found = cuGetProcAddress("cuDeviceGetUuid", &function, 11000, 0, nullptr);
  if (found != CUDA_SUCCESS || function == nullptr) return {CUDA_ERROR_NOT_FOUND};
  CUuuid uuid{};
  const CUresult result =
      reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(function)(&uuid, static_cast<int>(device));
  return {result, {static_cast<unsigned char>(uuid.bytes[15])}};
}

Answer EnterContext(uint64_t device) {
  CUcontext context = nullptr;
  const CUresult retained = cuDevicePrimaryCtxRetain(&context, static_cast<int>(device));
  return {retained != CUDA_SUCCESS ? retained : cuCtxSetCurrent(context)};
}

Answer Create(uint64_t device, uint64_t size, bool exportable) {
  const CUmemAllocationProp properties = Properties(device, exportable);
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, size, &properties, 0);
  return {result, {handle}};
}

Answer Export(uint64_t handle) {
  int fd = -1;
  const CUresult result =
      cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  return {result, {}, UniqueFd(fd)};
}

Answer Import(int fd) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result =
      cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  return {result, {handle}};
}

Answer Map(uint64_t handle, uint64_t size, uint64_t access, uint64_t device) {
  CUdeviceptr at = 0;
  CUresult result = cuMemAddressReserve(&at, size, 0, 0, 0);
  if (result == CUDA_SUCCESS) result = cuMemMap(at, size, 0, handle, 0);
  const CUmemAccessDesc desc{{CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(device)},
                             static_cast<CUmemAccess_flags>(access)};
  if (result == CUDA_SUCCESS) result = cuMemSetAccess(at, size, &desc, 1);
  return {result, {at}};
}

Answer Info() {
  size_t free = 0;
  size_t total = 0;
  const CUresult result = cuMemGetInfo(&free, &total);
  return {result, {free, total}};
}

Answer Get(uint64_t at) {
  unsigned char byte = 0;
  const CUresult result = cuMemcpyDtoH(&byte, at, 1);
  return {result, {byte}};
}

Answer SetAsync(uint64_t at, uint64_t size, uint64_t byte) {
  CUstream stream = nullptr;
  const CUresult created = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (created != CUDA_SUCCESS) return {created};
  return {cuMemsetD8Async(at, static_cast<unsigned char>(byte), size, stream)};
}

Answer CopyAsync(uint64_t to, uint64_t from, uint64_t size) {
  CUstream stream = nullptr;
  const CUresult created = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (created != CUDA_SUCCESS) return {created};
  return {cuMemcpyDtoDAsync(to, from, size, stream)};
}

Answer Alloc(uint64_t size) {
  CUdeviceptr at = 0;
  const CUresult result = cuMemAlloc(&at, size);
  return {result, {at}};
}

Answer Ordinal(uint64_t at) {
  int ordinal = -1;
  const CUresult result = cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, at);
  return {result, {static_cast<uint64_t>(ordinal)}};
}

Answer HandleDevice(uint64_t handle) {
  CUmemAllocationProp properties{};
  const CUresult result = cuMemGetAllocationPropertiesFromHandle(&properties, handle);
  return {result, {static_cast<uint64_t>(properties.location.id)}};
}

Answer Fork() {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) return {CUDA_ERROR_OPERATING_SYSTEM};
  const pid_t child = fork();
  if (child == 0) {
    int count = 0;
    size_t bytes = 0;
    CUcontext context = nullptr;
    const uint64_t results[] = {cuInit(0), cuDeviceGetCount(&count), cuCtxGetCurrent(&context),
                                cuMemGetInfo(&bytes, &bytes), cuMemRelease(1)};
    _exit(write(pipe_ends[1], results, sizeof(results)) == sizeof(results) ? 0 : 1);
  }
  waitpid(child, nullptr, 0);
  Words results(5);
  const ssize_t size = read(pipe_ends[0], results.data(), results.size() * sizeof(uint64_t));
  close(pipe_ends[0]);
  close(pipe_ends[1]);
  return {size > 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM, results};
}

// Uses every way in which memory can be held, until a signal ends it. Gives the first answer that
// is neither success nor that others hold the memory just now.
Answer Churn(uint64_t device, uint64_t size) {
  while (true) {
    Answer created = Create(device, size, true);
    if (created.result == CUDA_ERROR_OUT_OF_MEMORY) continue;
    if (created.result != CUDA_SUCCESS) return created;
    const uint64_t handle = created.values[0];
    Answer exported = Export(handle);
    if (exported.result != CUDA_SUCCESS) return exported;
    Answer imported = Import(exported.fd.get());
    if (imported.result != CUDA_SUCCESS) return imported;
    Answer mapped = Map(handle, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, device);
    if (mapped.result != CUDA_SUCCESS) return mapped;
    for (const CUresult result :
         {cuMemRelease(handle), cuMemUnmap(mapped.values[0], size),
          cuMemAddressFree(mapped.values[0], size), cuMemRelease(imported.values[0])}) {
      if (result != CUDA_SUCCESS) return {result};
    }
  }
}

int Serve(int socket) {
  std::vector<UniqueFd> kept;
  Message message;
  Words w;
  const std::map<std::string, std::function<Answer()>> commands = {
      {"init", [&] { return Answer{cuInit(0)}; }},
      {"count", [&] { return Count(); }},
      {"uuid", [&] { return Uuid(w.at(0)); }},
      {"old_uuid", [&] { return OldUuid(w.at(0)); }},
      {"ctx", [&] { return EnterContext(w.at(0)); }},
      {"create", [&] { return Create(w.at(0), w.at(1), w.at(2) != 0); }},
      {"release", [&] { return Answer{cuMemRelease(w.at(0))}; }},
      {"export", [&] { return Export(w.at(0)); }},
      {"import", [&] { return Import(message.fd.get()); }},
      {"map", [&] { return Map(w.at(0), w.at(1), w.at(2), w.at(3)); }},
      {"unmap", [&] { return Answer{cuMemUnmap(w.at(0), w.at(1))}; }},
      {"alloc", [&] { return Alloc(w.at(0)); }},
      {"info", [&] { return Info(); }},
      {"set",
       [&] { return Answer{cuMemsetD8(w.at(0), static_cast<unsigned char>(w.at(2)), w.at(1))}; }},
      {"set_async", [&] { return SetAsync(w.at(0), w.at(1), w.at(2)); }},
      {"copy_async", [&] { return CopyAsync(w.at(0), w.at(1), w.at(2)); }},
      {"get", [&] { return Get(w.at(0)); }},
      {"keep",
       [&] {
         kept.push_back(std::move(message.fd));
         return Answer{CUDA_SUCCESS};
       }},
      {"sync", [&] { return Answer{cuCtxSynchronize()}; }},
      {"ordinal", [&] { return Ordinal(w.at(0)); }},
      {"handle_device", [&] { return HandleDevice(w.at(0)); }},
      {"fork", [&] { return Fork(); }},
      {"churn", [&] { return Churn(w.at(0), w.at(1)); }},
  };
  while (Receive(socket, message)) {
    std::istringstream words(message.text);
    std::string command;
    words >> command;
    w.clear();
    for (uint64_t word = 0; words >> word;) w.push_back(word);
    const Answer answer = commands.at(command)();
    std::string reply = std::to_string(answer.result);
    for (const uint64_t value : answer.values) reply += " " + std::to_string(value);
    if (!Send(socket, reply, answer.fd.get())) break;
  }
  return 0;
}

}  // namespace
}  // namespace tenure::emulated

int main(int, char** arguments) { return tenure::emulated::Serve(atoi(arguments[1])); }
