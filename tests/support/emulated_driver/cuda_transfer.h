#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "tests/support/emulated_driver/cuda_driver.h"

namespace tenure::emulated {

// One end of a copy: host memory, device memory, or one byte again and again.
struct Place {
  enum class Kind { kHost, kDevice, kFill };
  Kind kind = Kind::kHost;
  CUdeviceptr at = 0;      // of the device; the host's as a number
  unsigned char byte = 0;  // of a fill

  static Place Host(const void* at) { return {Kind::kHost, reinterpret_cast<CUdeviceptr>(at), 0}; }
  static Place Device(CUdeviceptr at) { return {Kind::kDevice, at, 0}; }
  static Place Fill(unsigned char byte) { return {Kind::kFill, 0, byte}; }
  // Whatever the address is known as.
  static Place Unified(const Driver& driver, CUdeviceptr at) {
    return {driver.addresses.Touches(at, 1) ? Kind::kDevice : Kind::kHost, at, 0};
  }

  std::byte* host() const { return reinterpret_cast<std::byte*>(at); }
};

struct Transfer {
  Place to;
  Place from;
  size_t size = 0;
};

// Copies before it returns, after what the NULL stream waits for.
CUresult CopyNow(Driver& driver, PrimaryCtx& ctx, const Transfer& transfer);

// Copies in a stream, or as CopyNow if it is the NULL stream. Pinned host memory is read and
// written when the stream comes to it. Pageable memory is read before this returns, once the work
// before it is done, and written before this returns, as NVIDIA documents it.
CUresult CopyAsync(Driver& driver, PrimaryCtx& ctx, const Transfer& transfer, CUstream stream);

// The stream of a handle, null for the NULL stream: INVALID_HANDLE if it is none.
CUresult FindStream(const Driver& driver, CUstream handle, std::shared_ptr<Stream>& stream);

}  // namespace tenure::emulated
