#pragma once

#include <gtest/gtest.h>
#include <vector>

#include "core/base/units.h"
#include "tests/support/emulated_driver/cuda_types.h"
#include "tests/support/emulated_gpu.h"
#include "tests/support/temp_dir.h"

namespace tenure::emulated {

inline constexpr size_t kPiece = size_t{2} << 20;  // the granularity

// The machine of this process, made before its first call: two GPUs of 64 MiB, whose contexts
// cost nothing.
EmulatedGpu& ThisMachine();

// Properties of memory on a device.
CUmemAllocationProp Properties(int device, bool exportable = true);

// As Properties, created; fails the test if it is refused.
CUmemGenericAllocationHandle Create(int device, size_t size = kPiece, bool exportable = true);

CUresult SetAccess(CUdeviceptr at, size_t size, int device, CUmemAccess_flags flags);

// A reservation, gone with this object.
class Reservation {
 public:
  explicit Reservation(size_t size) : size_(size) {
    EXPECT_EQ(cuMemAddressReserve(&at_, size, 0, 0, 0), CUDA_SUCCESS);
  }
  ~Reservation() { EXPECT_EQ(cuMemAddressFree(at_, size_), CUDA_SUCCESS); }
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;
  CUdeviceptr at() const { return at_; }

 private:
  CUdeviceptr at_ = 0;
  const size_t size_;
};

// Whole pieces of device memory in one reservation, readable and writable for the device; gone with
// this object.
class MappedPieces {
 public:
  explicit MappedPieces(size_t count, int device = 0);
  ~MappedPieces();
  MappedPieces(const MappedPieces&) = delete;
  MappedPieces& operator=(const MappedPieces&) = delete;

  CUdeviceptr at() const { return at_; }
  CUmemGenericAllocationHandle handle(size_t piece) const { return handles_[piece]; }
  size_t size() const { return handles_.size() * kPiece; }

 private:
  CUdeviceptr at_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

// A test with an initialised driver and no context.
class DriverTest : public testing::Test {
 protected:
  DriverTest();
  ~DriverTest() override;
};

// A test in the context of device 0.
class ContextTest : public DriverTest {
 protected:
  ContextTest();
  ~ContextTest() override;

  CUcontext context_ = nullptr;
};

// The byte at a device address; fails the test if it can't be read.
unsigned char ByteAt(CUdeviceptr at);

}  // namespace tenure::emulated
