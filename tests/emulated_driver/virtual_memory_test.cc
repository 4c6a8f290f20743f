// Reservations, mappings, access, and what an address is, within one process.

#include <errno.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/emulated_driver/fixture.h"

namespace tenure::emulated {
namespace {

constexpr auto kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

using AddressTest = DriverTest;

CUresult TryReserve(size_t size, size_t alignment, CUdeviceptr hint = 0,
                    unsigned long long flags = 0) {
  CUdeviceptr at = 0;
  const CUresult result = cuMemAddressReserve(&at, size, alignment, hint, flags);
  if (result == CUDA_SUCCESS) cuMemAddressFree(at, size);
  return result;
}

TEST_F(AddressTest, ReservesMultiplesOfTheGranularityOnly) {
  EXPECT_EQ(TryReserve(kPiece, 0), CUDA_SUCCESS);
  EXPECT_EQ(TryReserve(0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryReserve(kPiece + 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryReserve(kPiece, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryReserve(kPiece, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryReserve(kPiece, 0, 0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryReserve(size_t{1} << 62, 0), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(AddressTest, AlignsAndKeepsToAHintThatIsFree) {
  constexpr size_t kAlignment = size_t{1} << 30;
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAddressReserve(&at, kPiece, kAlignment, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(at % kAlignment, 0U);
  EXPECT_EQ(cuMemAddressFree(at, kPiece), CUDA_SUCCESS);
  CUdeviceptr again = 0;
  ASSERT_EQ(cuMemAddressReserve(&again, kPiece, 0, at, 0), CUDA_SUCCESS);
  EXPECT_EQ(again, at);
  EXPECT_EQ(cuMemAddressFree(again, kPiece), CUDA_SUCCESS);
}

TEST_F(AddressTest, FreesOnlyTheExactReservationAndNotWhileItIsMapped) {
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAddressReserve(&at, 2 * kPiece, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(at + kPiece, kPiece), CUDA_ERROR_INVALID_VALUE);
  const auto handle = Create(0);
  ASSERT_EQ(cuMemMap(at, kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, 2 * kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(at, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, 2 * kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(AddressTest, CannotBeTouchedByTheCpuEvenWhileMapped) {
  const MappedPieces pieces(1);
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  // The kernel reads for us, and tells of the fault that we would have had.
  EXPECT_EQ(write(pipe_ends[1], reinterpret_cast<const void*>(pieces.at()), 1), -1);
  EXPECT_EQ(errno, EFAULT);
  close(pipe_ends[0]);
  close(pipe_ends[1]);
}

using MemMapTest = DriverTest;

TEST_F(MemMapTest, MapsWholeHandlesFromOffsetZeroOnly) {
  const Reservation reservation(4 * kPiece);
  const auto handle = Create(0, 2 * kPiece);
  EXPECT_EQ(cuMemMap(reservation.at(), kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(reservation.at(), kPiece, kPiece, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(reservation.at(), 3 * kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(reservation.at() + 4096, 2 * kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(reservation.at(), 2 * kPiece, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(reservation.at(), 2 * kPiece, 0, 12345, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(reservation.at(), 2 * kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(reservation.at(), 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(MemMapTest, KeepsWithinOneReservation) {
  const Reservation reservation(2 * kPiece);
  const auto handle = Create(0, 2 * kPiece);
  EXPECT_EQ(cuMemMap(reservation.at() + kPiece, 2 * kPiece, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(kPiece, 2 * kPiece, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(MemMapTest, RefusesToOverlap) {
  const Reservation reservation(4 * kPiece);
  const auto one = Create(0, 2 * kPiece);
  const auto other = Create(0, 2 * kPiece);
  ASSERT_EQ(cuMemMap(reservation.at() + kPiece, 2 * kPiece, 0, one, 0), CUDA_SUCCESS);
  for (size_t piece = 0; piece < 3; ++piece) {
    EXPECT_EQ(cuMemMap(reservation.at() + piece * kPiece, 2 * kPiece, 0, other, 0),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemUnmap(reservation.at() + kPiece, 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(reservation.at(), 2 * kPiece, 0, other, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(reservation.at(), 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(one), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
}

using MemUnmapTest = DriverTest;

TEST_F(MemUnmapTest, TakesWholeMappingsOnly) {
  const Reservation reservation(4 * kPiece);
  const auto one = Create(0, 2 * kPiece);
  const auto other = Create(0);
  ASSERT_EQ(cuMemMap(reservation.at(), 2 * kPiece, 0, one, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(reservation.at() + 2 * kPiece, kPiece, 0, other, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(reservation.at(), kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(reservation.at() + kPiece, kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(reservation.at() + kPiece, 2 * kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(reservation.at(), 4 * kPiece), CUDA_ERROR_INVALID_VALUE)
      << "the last piece isn't mapped";
  EXPECT_EQ(cuMemUnmap(reservation.at(), 3 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(reservation.at(), 3 * kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(one), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
}

using MemAccessTest = DriverTest;

TEST_F(MemAccessTest, IsSetOnFullyMappedRangesOnly) {
  const Reservation reservation(3 * kPiece);
  const auto handle = Create(0, 2 * kPiece);
  EXPECT_EQ(SetAccess(reservation.at(), kPiece, 0, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(reservation.at(), 2 * kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(SetAccess(reservation.at(), 3 * kPiece, 0, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(reservation.at(), kPiece, 0, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(reservation.at(), 0, 0, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(reservation.at(), 2 * kPiece, 0, kReadWrite), CUDA_SUCCESS);
  EXPECT_EQ(SetAccess(reservation.at(), 2 * kPiece, 7, kReadWrite), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(SetAccess(reservation.at(), 2 * kPiece, 0, static_cast<CUmemAccess_flags>(2)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(reservation.at(), 2 * kPiece, nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(reservation.at(), 2 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

unsigned long long AccessOf(CUdeviceptr at, int device) {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
  unsigned long long flags = 99;
  EXPECT_EQ(cuMemGetAccess(&flags, &location, at), CUDA_SUCCESS);
  return flags;
}

TEST_F(MemAccessTest, IsEachDevicesOwnAndNoneForAFreshMapping) {
  const Reservation reservation(kPiece);
  const auto handle = Create(0);
  ASSERT_EQ(cuMemMap(reservation.at(), kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(AccessOf(reservation.at(), 0), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  ASSERT_EQ(SetAccess(reservation.at(), kPiece, 0, kReadWrite), CUDA_SUCCESS);
  EXPECT_EQ(AccessOf(reservation.at() + 5, 0), kReadWrite);
  EXPECT_EQ(AccessOf(reservation.at(), 1), CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(cuMemUnmap(reservation.at(), kPiece), CUDA_SUCCESS);
  unsigned long long flags = 0;
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  EXPECT_EQ(cuMemGetAccess(&flags, &location, reservation.at()), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(reservation.at(), kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(AccessOf(reservation.at(), 0), CU_MEM_ACCESS_FLAGS_PROT_NONE)
      << "a new mapping at the old address";
  EXPECT_EQ(cuMemUnmap(reservation.at(), kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

// Four threads use every entry point of the API at once.
TEST_F(MemMapTest, CanBeCalledByManyThreads) {
  std::vector<std::thread> threads;
  for (int device : {0, 1, 0, 1}) {
    threads.emplace_back([device] {
      CUcontext context = nullptr;
      EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
      EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
      for (unsigned char round = 1; round <= 20; ++round) {
        const MappedPieces pieces(3, device);
        EXPECT_EQ(cuMemsetD8(pieces.at(), round, pieces.size()), CUDA_SUCCESS);
        EXPECT_EQ(ByteAt(pieces.at() + pieces.size() - 1), round);
      }
      EXPECT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
      EXPECT_EQ(cuDevicePrimaryCtxRelease(device), CUDA_SUCCESS);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

using PointerTest = ContextTest;

template <typename Value>
Value PointerAttribute(CUpointer_attribute attribute, CUdeviceptr at) {
  Value value{};
  EXPECT_EQ(cuPointerGetAttribute(&value, attribute, at), CUDA_SUCCESS);
  return value;
}

TEST_F(PointerTest, TellsWhatAnAddressIs) {
  const MappedPieces pieces(1, 1);
  EXPECT_EQ(PointerAttribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pieces.at() + 7), 1);
  EXPECT_EQ(PointerAttribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pieces.at()),
            unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(PointerAttribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, pieces.at()), nullptr);
  CUdeviceptr linear = 0;
  ASSERT_EQ(cuMemAlloc(&linear, 10), CUDA_SUCCESS);
  EXPECT_EQ(PointerAttribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, linear), context_);
  EXPECT_EQ(cuMemFree(linear), CUDA_SUCCESS);
  void* host = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&host, 10, 0), CUDA_SUCCESS);
  EXPECT_EQ(PointerAttribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                       reinterpret_cast<CUdeviceptr>(host)),
            unsigned{CU_MEMORYTYPE_HOST});
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(PointerTest, KnowsNothingOfPageableMemory) {
  int on_the_stack = 0;
  int ordinal = 0;
  EXPECT_EQ(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  reinterpret_cast<CUdeviceptr>(&on_the_stack)),
            CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tenure::emulated
