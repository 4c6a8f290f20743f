// Copies: what they reach, what they refuse, and what ends a context.

#include <string>
#include <sys/mman.h>
#include <vector>

#include "tests/emulated_driver/fixture.h"
#include "tests/emulated_driver/peer.h"

namespace tenure::emulated {
namespace {

using CopyTest = ContextTest;

TEST_F(CopyTest, CrossesFromOnePieceToTheNext) {
  const MappedPieces pieces(2);
  const MappedPieces others(2);
  std::vector<unsigned char> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i);
  const CUdeviceptr edge = pieces.at() + kPiece - 300;
  ASSERT_EQ(cuMemcpyHtoD(edge, bytes.data(), bytes.size()), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoD(others.at() + kPiece - 700, edge, bytes.size()), CUDA_SUCCESS);
  std::vector<unsigned char> back(bytes.size());
  ASSERT_EQ(cuMemcpyDtoH(back.data(), others.at() + kPiece - 700, back.size()), CUDA_SUCCESS);
  EXPECT_EQ(back, bytes);
}

TEST_F(CopyTest, InfersWhatAnAddressIs) {
  const MappedPieces pieces(1);
  unsigned char from = 9;
  unsigned char to = 0;
  const auto host = [](void* at) { return reinterpret_cast<CUdeviceptr>(at); };
  EXPECT_EQ(cuMemcpy(pieces.at(), host(&from), 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpy(pieces.at() + 1, pieces.at(), 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpy(host(&to), pieces.at() + 1, 1), CUDA_SUCCESS);
  EXPECT_EQ(to, 9);
}

TEST_F(CopyTest, RefusesDeviceAddressesThatAreNotMapped) {
  const MappedPieces pieces(1);
  unsigned char byte = 0;
  CUdeviceptr reserved = 0;
  ASSERT_EQ(cuMemAddressReserve(&reserved, kPiece, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(reserved, &byte, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(12345, &byte, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(pieces.at() + 1, 0, kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(pieces.at(), nullptr, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(reserved, kPiece), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(pieces.at(), 7, 1), CUDA_SUCCESS) << "the context is sound";
  EXPECT_EQ(ByteAt(pieces.at()), 7);
}

TEST_F(CopyTest, RefusesToCopyBytesToWhereSomeOfThemLie) {
  const MappedPieces pieces(1);
  EXPECT_EQ(cuMemcpyDtoD(pieces.at() + 99, pieces.at(), 100), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD(pieces.at(), pieces.at() + 99, 100), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoD(pieces.at() + 100, pieces.at(), 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoD(pieces.at(), pieces.at() + 100, 100), CUDA_SUCCESS);
}

TEST_F(CopyTest, RefusesDeviceAddressesWhereHostMemoryBelongs) {
  const MappedPieces pieces(1);
  EXPECT_EQ(cuMemcpyHtoD(pieces.at(), reinterpret_cast<const void*>(pieces.at()), 1),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CopyTest, RefusesHostMemoryThatIsPinnedInPart) {
  const MappedPieces pieces(1);
  std::vector<unsigned char> bytes(4 * 4096);
  ASSERT_EQ(cuMemHostRegister(bytes.data() + 4096, 4096, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(pieces.at(), bytes.data(), 8192), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(pieces.at(), bytes.data() + 4096, 8192), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyHtoD(pieces.at(), bytes.data() + 4096, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(pieces.at(), bytes.data() + 8192, 4096), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(bytes.data() + 4096), CUDA_SUCCESS);
}

TEST_F(CopyTest, ReachesLinearMemoryUpToItsLastByte) {
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAlloc(&at, 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(at, 5, 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(at, 5, 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ByteAt(at + 99), 5);
  EXPECT_EQ(cuMemFree(at + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc(&at, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CopyTest, KeepsTheVirtualMemoryApiOffLinearMemory) {
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAlloc(&at, kPiece), CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&handle, reinterpret_cast<void*>(at)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(at, kPiece, 0, CU_MEM_ACCESS_FLAGS_PROT_READ), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(at, kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(at, kPiece), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
}

TEST_F(CopyTest, FillsJustTheBytesThatItIsAskedToFill) {
  const MappedPieces pieces(2);
  for (const size_t size : {size_t{100}, kPiece}) {
    ASSERT_EQ(cuMemsetD8(pieces.at(), 5, pieces.size()), CUDA_SUCCESS);
    ASSERT_EQ(cuMemsetD8(pieces.at() + 4096, 0, size), CUDA_SUCCESS);
    EXPECT_EQ(ByteAt(pieces.at() + 4095), 5);
    EXPECT_EQ(ByteAt(pieces.at() + 4096), 0);
    EXPECT_EQ(ByteAt(pieces.at() + 4096 + size - 1), 0);
    EXPECT_EQ(ByteAt(pieces.at() + 4096 + size), 5);
  }
}

using PinnedTest = ContextTest;

TEST_F(PinnedTest, RegistersMemoryOnceAndUnregistersItOnce) {
  std::vector<unsigned char> bytes(8192);
  EXPECT_EQ(cuMemHostUnregister(bytes.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  ASSERT_EQ(cuMemHostRegister(bytes.data(), 8192, CU_MEMHOSTREGISTER_PORTABLE), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister(bytes.data() + 4096, 4096, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(bytes.data() + 1), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(bytes.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister(bytes.data(), 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(bytes.data(), 8192, 0x100), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PinnedTest, RegistersOnlyMemoryThatIsMappedAndWritable) {
  void* const pages = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(cuMemHostRegister(pages, 8192, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(pages, 8192, CU_MEMHOSTREGISTER_READ_ONLY), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_SUCCESS);
  ASSERT_EQ(mprotect(pages, 8192, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(cuMemHostRegister(pages, 8192, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_SUCCESS);
  ASSERT_EQ(munmap(pages, 8192), 0);
  EXPECT_EQ(cuMemHostRegister(pages, 8192, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(PinnedTest, FreesOnlyWhatItAllocated) {
  void* host = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(static_cast<char*>(host) + 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(host), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostAlloc(&host, 100, 0x100), CUDA_ERROR_INVALID_VALUE);
  std::vector<unsigned char> bytes(4096);
  ASSERT_EQ(cuMemHostRegister(bytes.data(), bytes.size(), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(bytes.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(bytes.data()), CUDA_SUCCESS);
}

// What ends a context ends it for the whole process, so another one does it.
class StickyTest : public testing::Test {
 protected:
  StickyTest() {
    EXPECT_EQ(peer_.Do("init").result, CUDA_SUCCESS);
    EXPECT_EQ(peer_.Do("ctx 0").result, CUDA_SUCCESS);
    handle_ = peer_.Do("create 0 2097152 1").values.at(0);
  }
  std::string Map(int access) {
    const Peer::Reply mapped =
        peer_.Do("map " + std::to_string(handle_) + " 2097152 " + std::to_string(access) + " 0");
    EXPECT_EQ(mapped.result, CUDA_SUCCESS);
    return std::to_string(mapped.values.at(0));
  }
  void ExpectEveryCallInTheContextToFail() {
    EXPECT_EQ(peer_.Do("info").result, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(peer_.Do("sync").result, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(peer_.Do("alloc 1").result, CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(peer_.Do("ctx 0").result, CUDA_SUCCESS);
    EXPECT_EQ(peer_.Do("info").result, CUDA_ERROR_ILLEGAL_ADDRESS);
  }

  TempDir temp_;
  EmulatedGpu machine_{temp_ / "machine"};
  Peer peer_{machine_};
  uint64_t handle_ = 0;
};

TEST_F(StickyTest, WritingWhatIsReadOnlyEndsTheContext) {
  const std::string at = Map(CU_MEM_ACCESS_FLAGS_PROT_READ);
  ASSERT_EQ(peer_.Do("get " + at).result, CUDA_SUCCESS);
  EXPECT_EQ(peer_.Do("set " + at + " 1 1").result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ExpectEveryCallInTheContextToFail();
}

TEST_F(StickyTest, ReadingWithoutAccessEndsTheContext) {
  const std::string at = Map(CU_MEM_ACCESS_FLAGS_PROT_NONE);
  EXPECT_EQ(peer_.Do("get " + at).result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ExpectEveryCallInTheContextToFail();
}

TEST_F(StickyTest, AStreamEndsTheContextWhenItComesToTheAccess) {
  const std::string at = Map(CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_EQ(peer_.Do("set_async " + at + " 1 1").result, CUDA_SUCCESS);
  EXPECT_EQ(peer_.Do("sync").result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ExpectEveryCallInTheContextToFail();
}

TEST_F(StickyTest, AStreamEndsTheContextIfTheMemoryIsUnmappedBeforeItComesToIt) {
  const std::string at = Map(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  machine_.HoldStreams();
  ASSERT_EQ(peer_.Do("set_async " + at + " 1 1").result, CUDA_SUCCESS);
  ASSERT_EQ(peer_.Do("unmap " + at + " 2097152").result, CUDA_SUCCESS);
  machine_.ReleaseStreams();
  EXPECT_EQ(peer_.Do("sync").result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StickyTest, AStreamEndsTheContextIfItMayNotReadWhatItCopiesAcross) {
  const std::string from = Map(CU_MEM_ACCESS_FLAGS_PROT_NONE);
  const std::string to = Map(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_EQ(peer_.Do("copy_async " + to + " " + from + " 4096").result, CUDA_SUCCESS);
  EXPECT_EQ(peer_.Do("sync").result, CUDA_ERROR_ILLEGAL_ADDRESS);
  ExpectEveryCallInTheContextToFail();
}

TEST_F(StickyTest, AStreamEndsTheContextIfWhatItCopiesAcrossIsUnmappedBefore) {
  const std::string from = Map(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const std::string to = Map(CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  machine_.HoldStreams();
  ASSERT_EQ(peer_.Do("copy_async " + to + " " + from + " 4096").result, CUDA_SUCCESS);
  ASSERT_EQ(peer_.Do("unmap " + from + " 2097152").result, CUDA_SUCCESS);
  machine_.ReleaseStreams();
  EXPECT_EQ(peer_.Do("sync").result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

TEST_F(StickyTest, LeavesOtherProcessesAlone) {
  const std::string at = Map(CU_MEM_ACCESS_FLAGS_PROT_READ);
  Peer other(machine_);
  ASSERT_EQ(other.Do("init").result, CUDA_SUCCESS);
  ASSERT_EQ(other.Do("ctx 0").result, CUDA_SUCCESS);
  ASSERT_EQ(peer_.Do("set " + at + " 1 1").result, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(other.Do("info").result, CUDA_SUCCESS);
}

TEST_F(StickyTest, AnotherDevicesAccessIsNoAccess) {
  MachineConfig config;
  config.gpus.resize(2);
  const EmulatedGpu two(temp_ / "two", config);
  Peer peer(two);
  ASSERT_EQ(peer.Do("init").result, CUDA_SUCCESS);
  ASSERT_EQ(peer.Do("ctx 0").result, CUDA_SUCCESS);
  const uint64_t handle = peer.Do("create 1 2097152 1").values.at(0);
  const Peer::Reply mapped = peer.Do("map " + std::to_string(handle) + " 2097152 3 1");
  ASSERT_EQ(mapped.result, CUDA_SUCCESS);
  EXPECT_EQ(peer.Do("get " + std::to_string(mapped.values.at(0))).result,
            CUDA_ERROR_ILLEGAL_ADDRESS);
}

}  // namespace
}  // namespace tenure::emulated
