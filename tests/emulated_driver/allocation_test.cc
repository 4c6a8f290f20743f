// What memory is created, what its handles are worth, and when it goes.

#include "tests/emulated_driver/fixture.h"

namespace tenure::emulated {
namespace {

using MemCreateTest = DriverTest;

CUresult TryCreate(const CUmemAllocationProp& properties, size_t size = kPiece,
                   unsigned long long flags = 0) {
  CUmemGenericAllocationHandle handle = 0;
  const CUresult result = cuMemCreate(&handle, size, &properties, flags);
  if (result == CUDA_SUCCESS) cuMemRelease(handle);
  return result;
}

TEST_F(MemCreateTest, TakesOnlyMultiplesOfTheGranularity) {
  const CUmemAllocationProp properties = Properties(0);
  size_t granularity = 0;
  EXPECT_EQ(
      cuMemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
      CUDA_SUCCESS);
  EXPECT_EQ(granularity, kPiece);
  EXPECT_EQ(TryCreate(properties, 3 * kPiece), CUDA_SUCCESS);
  EXPECT_EQ(TryCreate(properties, kPiece + 4096), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TryCreate(properties, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemCreateTest, RefusesUnknownPropertiesAndFlags) {
  CUmemAllocationProp properties = Properties(0);
  EXPECT_EQ(TryCreate(properties, kPiece, 1), CUDA_ERROR_INVALID_VALUE);
  properties.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  EXPECT_EQ(TryCreate(properties), CUDA_ERROR_INVALID_VALUE);
  properties = Properties(0);
  properties.location.type = CU_MEM_LOCATION_TYPE_INVALID;
  EXPECT_EQ(TryCreate(properties), CUDA_ERROR_INVALID_VALUE);
  properties = Properties(0);
  properties.location.type = CU_MEM_LOCATION_TYPE_HOST;
  EXPECT_EQ(TryCreate(properties), CUDA_ERROR_INVALID_VALUE) << "it can't be exported";
  properties = Properties(2);
  EXPECT_EQ(TryCreate(properties), CUDA_ERROR_INVALID_DEVICE);
  properties = Properties(0);
  properties.allocFlags.reserved[0] = 1;
  EXPECT_EQ(TryCreate(properties), CUDA_ERROR_INVALID_VALUE);
  properties = Properties(0);
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  EXPECT_EQ(TryCreate(properties), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemCreate(nullptr, kPiece, &properties, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemCreateTest, TellsThePropertiesOfAHandle) {
  CUmemAllocationProp asked = Properties(1);
  asked.allocFlags.gpuDirectRDMACapable = 1;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, kPiece, &asked, 0), CUDA_SUCCESS);
  CUmemAllocationProp told{};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&told, handle), CUDA_SUCCESS);
  EXPECT_EQ(told.location.id, 1);
  EXPECT_EQ(told.location.type, CU_MEM_LOCATION_TYPE_DEVICE);
  EXPECT_EQ(told.requestedHandleTypes, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  EXPECT_EQ(told.allocFlags.gpuDirectRDMACapable, 1);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&told, handle), CUDA_ERROR_INVALID_VALUE);
}

using MemReleaseTest = DriverTest;

TEST_F(MemReleaseTest, RefusesAHandleThatIsNone) {
  const auto handle = Create(0);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(12345), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(MemReleaseTest, FreesTheMemoryOnlyOnceItIsUnmapped) {
  const Reservation reservation(kPiece);
  const auto handle = Create(0);
  ASSERT_EQ(cuMemMap(reservation.at(), kPiece, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(ThisMachine().LiveBytes(0), Bytes(kPiece));
  EXPECT_EQ(cuMemUnmap(reservation.at(), kPiece), CUDA_SUCCESS);
  EXPECT_EQ(ThisMachine().LiveBytes(0), Bytes(0));
}

TEST_F(MemReleaseTest, NeedsAsManyCallsAsThereAreReferences) {
  const Reservation reservation(kPiece);
  const auto handle = Create(0);
  ASSERT_EQ(cuMemMap(reservation.at(), kPiece, 0, handle, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle retained = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&retained,
                                        reinterpret_cast<void*>(reservation.at() + kPiece / 2)),
            CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  EXPECT_EQ(cuMemUnmap(reservation.at(), kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(ThisMachine().LiveBytes(0), Bytes(kPiece));
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(ThisMachine().LiveBytes(0), Bytes(0));
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(reservation.at())),
            CUDA_ERROR_INVALID_VALUE)
      << "nothing is mapped there";
}

TEST_F(MemReleaseTest, LeavesAHandleThatAMappingBringsBackUnderItsOldValue) {
  const Reservation reservation(kPiece);
  const auto handle = Create(0);
  ASSERT_EQ(cuMemMap(reservation.at(), kPiece, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  CUmemGenericAllocationHandle retained = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(reservation.at())),
            CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  EXPECT_EQ(cuMemRelease(retained), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(reservation.at(), kPiece), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tenure::emulated
