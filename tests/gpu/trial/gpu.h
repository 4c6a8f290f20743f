#pragma once

#include <cuda.h>
#include <span>
#include <string>

#include "core/base/unique_fd.h"
#include "core/base/units.h"
#include "tests/gpu/conformance/driver_api.h"

namespace tenure::trial {

// The first GPU that the driver shows, its primary context current on the thread that made this.
// What the driver refuses is thrown as std::runtime_error that names the call and the result.
// Thread-compatible.
class Gpu {
 public:
  // CannotRun if there is no driver, or no device that has virtual memory.
  Gpu();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const conformance::DriverApi& cuda() const { return cuda_; }
  const std::string& name() const { return name_; }
  int driver_version() const { return driver_version_; }
  // Of the device's memory, and what it has of it in all.
  Bytes granule() const { return granule_; }
  Bytes total() const { return total_; }
  // What the driver says is free now.
  Bytes Free() const;
  bool Has(CUdevice_attribute attribute) const;

  // Throws unless `result` is success; `call` is named then.
  void Must(const char* call, CUresult result) const;
  // "CUDA_ERROR_OUT_OF_MEMORY"
  std::string NameOf(CUresult result) const;

  // One call each.
  CUmemGenericAllocationHandle Create(Bytes size) const;
  void Release(CUmemGenericAllocationHandle handle) const;
  UniqueFd Export(CUmemGenericAllocationHandle handle) const;
  CUmemGenericAllocationHandle Import(int fd) const;
  CUdeviceptr Reserve(Bytes size) const;
  void FreeAddresses(CUdeviceptr at, Bytes size) const;
  void Map(CUdeviceptr at, Bytes size, CUmemGenericAllocationHandle handle) const;
  void Unmap(CUdeviceptr at, Bytes size) const;
  void SetAccess(CUdeviceptr at, Bytes size, CUmemAccess_flags flags) const;
  CUdeviceptr Alloc(Bytes size) const;
  void FreeAlloc(CUdeviceptr at) const;
  void CopyIn(CUdeviceptr to, std::span<const std::byte> from) const;
  void CopyOut(std::span<std::byte> to, CUdeviceptr from) const;

  // Writes the pattern that `seed` stands for, and whether memory shows it; a multiple of 8 bytes.
  void Fill(CUdeviceptr at, Bytes size, uint64_t seed) const;
  bool Shows(CUdeviceptr at, Bytes size, uint64_t seed) const;

 private:
  CUmemAllocationProp Allocation() const;

  conformance::DriverApi cuda_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;  // null until retained
  std::string name_;
  int driver_version_ = 0;
  Bytes granule_;
  Bytes total_;
};

// A handle mapped whole at addresses of its own, until this object is gone. Thread-compatible.
class Mapped {
 public:
  Mapped(const Gpu& gpu, CUmemGenericAllocationHandle handle, Bytes size, CUmemAccess_flags flags);
  ~Mapped();
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  CUdeviceptr at() const { return at_; }

 private:
  const Gpu& gpu_;
  const Bytes size_;
  const CUdeviceptr at_;
};

// Host memory that the device copies to and from at full speed. Thread-compatible.
class Pinned {
 public:
  Pinned(const Gpu& gpu, Bytes size);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

  std::span<std::byte> view() const { return view_; }
  // Where kernels reach it: the same address.
  CUdeviceptr at() const { return reinterpret_cast<CUdeviceptr>(view_.data()); }

 private:
  const Gpu& gpu_;
  std::span<std::byte> view_;
};

// A stream that waits for no other. Thread-compatible.
class Stream {
 public:
  explicit Stream(const Gpu& gpu);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream get() const { return stream_; }
  void Wait() const;

 private:
  const Gpu& gpu_;
  CUstream stream_ = nullptr;
};

}  // namespace tenure::trial
