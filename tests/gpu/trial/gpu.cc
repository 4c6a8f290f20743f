#include "tests/gpu/trial/gpu.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <stdexcept>

#include "tests/gpu/trial/findings.h"

namespace tenure::trial {
namespace {

constexpr size_t kPiece = size_t{4} << 20;

// Any two seeds, and any two places, have other words.
uint64_t Word(uint64_t seed, uint64_t index) {
  uint64_t word = seed * 0x9e3779b97f4a7c15 + index;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

// Calls `work(offset, words)` for pieces of the pattern.
template <typename Work>
void ForEachPiece(Bytes size, uint64_t seed, const Work& work) {
  std::vector<uint64_t> words;
  for (uint64_t offset = 0; offset < size.count(); offset += kPiece) {
    words.resize(std::min<uint64_t>(kPiece, size.count() - offset) / sizeof(uint64_t));
    for (size_t i = 0; i < words.size(); ++i) {
      words[i] = Word(seed, offset / sizeof(uint64_t) + i);
    }
    work(offset, std::as_bytes(std::span(words)));
  }
}

}  // namespace

Gpu::Gpu() {
  if (const std::string missing = LoadDriver(cuda_); !missing.empty()) throw CannotRun(missing);
  if (const CUresult result = cuda_.Init(0); result != CUDA_SUCCESS) {
    throw CannotRun("the driver does not start: " + NameOf(result));
  }
  int count = 0;
  Must("cuDeviceGetCount", cuda_.DeviceGetCount(&count));
  if (count == 0) throw CannotRun("the driver shows no device");
  Must("cuDeviceGet", cuda_.DeviceGet(&device_, 0));
  for (const CUdevice_attribute needed :
       {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED}) {
    if (!Has(needed)) throw CannotRun("the device has no virtual memory that can be exported");
  }
  Must("cuDriverGetVersion", cuda_.DriverGetVersion(&driver_version_));
  std::array<char, 256> name{};
  Must("cuDeviceGetName",
       cuda_.DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device_));
  name_ = name.data();
  size_t bytes = 0;
  Must("cuDeviceTotalMem", cuda_.DeviceTotalMem(&bytes, device_));
  total_ = Bytes(bytes);
  const CUmemAllocationProp allocation = Allocation();
  Must("cuMemGetAllocationGranularity",
       cuda_.MemGetAllocationGranularity(&bytes, &allocation, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  granule_ = std::max(Bytes(bytes), MiB(2));
  Must("cuDevicePrimaryCtxRetain", cuda_.DevicePrimaryCtxRetain(&context_, device_));
  Must("cuCtxSetCurrent", cuda_.CtxSetCurrent(context_));
}

Gpu::~Gpu() {
  if (context_ != nullptr) cuda_.DevicePrimaryCtxRelease(device_);
}

Bytes Gpu::Free() const {
  size_t free = 0;
  size_t total = 0;
  Must("cuMemGetInfo", cuda_.MemGetInfo(&free, &total));
  return Bytes(free);
}

bool Gpu::Has(CUdevice_attribute attribute) const {
  int value = 0;
  return cuda_.DeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS && value != 0;
}

void Gpu::Must(const char* call, CUresult result) const {
  if (result != CUDA_SUCCESS) throw std::runtime_error(std::string(call) + ": " + NameOf(result));
}

std::string Gpu::NameOf(CUresult result) const {
  const char* name = nullptr;
  if (cuda_.GetErrorName(result, &name) == CUDA_SUCCESS && name != nullptr) return name;
  return "CUDA error " + std::to_string(static_cast<int>(result));
}

CUmemAllocationProp Gpu::Allocation() const {
  CUmemAllocationProp allocation{};
  allocation.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  allocation.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  allocation.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  allocation.location.id = device_;
  return allocation;
}

CUmemGenericAllocationHandle Gpu::Create(Bytes size) const {
  const CUmemAllocationProp allocation = Allocation();
  CUmemGenericAllocationHandle handle = 0;
  Must("cuMemCreate", cuda_.MemCreate(&handle, size.count(), &allocation, 0));
  return handle;
}

void Gpu::Release(CUmemGenericAllocationHandle handle) const {
  Must("cuMemRelease", cuda_.MemRelease(handle));
}

UniqueFd Gpu::Export(CUmemGenericAllocationHandle handle) const {
  int fd = -1;
  Must("cuMemExportToShareableHandle",
       cuda_.MemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return UniqueFd(fd);
}

CUmemGenericAllocationHandle Gpu::Import(int fd) const {
  CUmemGenericAllocationHandle handle = 0;
  void* const as_pointer = reinterpret_cast<void*>(intptr_t{fd});  // NOLINT: as the driver wants it
  Must("cuMemImportFromShareableHandle",
       cuda_.MemImportFromShareableHandle(&handle, as_pointer,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  return handle;
}

CUdeviceptr Gpu::Reserve(Bytes size) const {
  CUdeviceptr at = 0;
  Must("cuMemAddressReserve", cuda_.MemAddressReserve(&at, size.count(), granule_.count(), 0, 0));
  return at;
}

void Gpu::FreeAddresses(CUdeviceptr at, Bytes size) const {
  Must("cuMemAddressFree", cuda_.MemAddressFree(at, size.count()));
}

void Gpu::Map(CUdeviceptr at, Bytes size, CUmemGenericAllocationHandle handle) const {
  Must("cuMemMap", cuda_.MemMap(at, size.count(), 0, handle, 0));
}

void Gpu::Unmap(CUdeviceptr at, Bytes size) const {
  Must("cuMemUnmap", cuda_.MemUnmap(at, size.count()));
}

void Gpu::SetAccess(CUdeviceptr at, Bytes size, CUmemAccess_flags flags) const {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device_;
  access.flags = flags;
  Must("cuMemSetAccess", cuda_.MemSetAccess(at, size.count(), &access, 1));
}

CUdeviceptr Gpu::Alloc(Bytes size) const {
  CUdeviceptr at = 0;
  Must("cuMemAlloc", cuda_.MemAlloc(&at, size.count()));
  return at;
}

void Gpu::FreeAlloc(CUdeviceptr at) const { Must("cuMemFree", cuda_.MemFree(at)); }

void Gpu::CopyIn(CUdeviceptr to, std::span<const std::byte> from) const {
  Must("cuMemcpyHtoD", cuda_.MemcpyHtoD(to, from.data(), from.size()));
}

void Gpu::CopyOut(std::span<std::byte> to, CUdeviceptr from) const {
  Must("cuMemcpyDtoH", cuda_.MemcpyDtoH(to.data(), from, to.size()));
}

void Gpu::Fill(CUdeviceptr at, Bytes size, uint64_t seed) const {
  ForEachPiece(size, seed, [&](uint64_t offset, std::span<const std::byte> piece) {
    CopyIn(at + offset, piece);
  });
  // A copy from memory that is not pinned may return before its last bytes have arrived.
  Must("cuCtxSynchronize", cuda_.CtxSynchronize());
}

bool Gpu::Shows(CUdeviceptr at, Bytes size, uint64_t seed) const {
  bool shows = true;
  std::vector<std::byte> seen(kPiece);
  ForEachPiece(size, seed, [&](uint64_t offset, std::span<const std::byte> piece) {
    const std::span<std::byte> part = std::span(seen).first(piece.size());
    CopyOut(part, at + offset);
    shows = shows && std::ranges::equal(part, piece);
  });
  return shows;
}

Mapped::Mapped(const Gpu& gpu, CUmemGenericAllocationHandle handle, Bytes size,
               CUmemAccess_flags flags)
    : gpu_(gpu), size_(size), at_(gpu.Reserve(size)) {
  gpu.Map(at_, size, handle);
  gpu.SetAccess(at_, size, flags);
}

Mapped::~Mapped() {
  gpu_.cuda().MemUnmap(at_, size_.count());
  gpu_.cuda().MemAddressFree(at_, size_.count());
}

Pinned::Pinned(const Gpu& gpu, Bytes size) : gpu_(gpu) {
  void* memory = nullptr;
  gpu.Must("cuMemHostAlloc",
           gpu.cuda().MemHostAlloc(&memory, size.count(),
                                   CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP));
  view_ = {static_cast<std::byte*>(memory), size.count()};
}

Pinned::~Pinned() { gpu_.cuda().MemFreeHost(view_.data()); }

Stream::Stream(const Gpu& gpu) : gpu_(gpu) {
  gpu.Must("cuStreamCreate", gpu.cuda().StreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
}

Stream::~Stream() { gpu_.cuda().StreamDestroy(stream_); }

void Stream::Wait() const {
  gpu_.Must("cuStreamSynchronize", gpu_.cuda().StreamSynchronize(stream_));
}

}  // namespace tenure::trial
