// Streams and events: order, lateness, and what waits for what.

#include <string.h>
#include <thread>
#include <vector>

#include "tests/emulated_driver/fixture.h"

namespace tenure::emulated {
namespace {

// A test with two pieces of device memory, pinned and pageable host memory, and a stream of its
// own that does not wait for the NULL stream.
class StreamTest : public ContextTest {
 protected:
  StreamTest() {
    EXPECT_EQ(cuMemHostAlloc(reinterpret_cast<void**>(&pinned_), kSize, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    memset(pinned_, 1, kSize);
    pageable_.assign(kSize, 1);
  }
  ~StreamTest() override {
    ThisMachine().ReleaseStreams();
    EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamDestroy(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(pinned_), CUDA_SUCCESS);
  }

  // Releases the held streams as soon as the entry point is called next.
  static std::thread ReleaseInCallOf(const char* entry) {
    return std::thread([entry, before = ThisMachine().CallsOf(entry)] {
      while (ThisMachine().CallsOf(entry) == before) std::this_thread::yield();
      ThisMachine().ReleaseStreams();
    });
  }

  static constexpr size_t kSize = 4096;
  const MappedPieces pieces_{2};
  unsigned char* pinned_ = nullptr;
  std::vector<unsigned char> pageable_;
  CUstream stream_ = nullptr;
};

TEST_F(StreamTest, ReadsPinnedMemoryLate) {
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemcpyHtoDAsync(pieces_.at(), pinned_, kSize, stream_), CUDA_SUCCESS);
  memset(pinned_, 2, kSize);
  ThisMachine().ReleaseStreams();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at()), 2);
}

TEST_F(StreamTest, ReadsRegisteredMemoryLate) {
  ASSERT_EQ(cuMemHostRegister(pageable_.data(), kSize, 0), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemcpyHtoDAsync(pieces_.at(), pageable_.data(), kSize, stream_), CUDA_SUCCESS);
  pageable_.assign(kSize, 2);
  ThisMachine().ReleaseStreams();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at()), 2);
  EXPECT_EQ(cuMemHostUnregister(pageable_.data()), CUDA_SUCCESS);
}

TEST_F(StreamTest, ReadsPageableMemoryBeforeTheCallReturns) {
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemcpyHtoDAsync(pieces_.at(), pageable_.data(), kSize, stream_), CUDA_SUCCESS);
  pageable_.assign(kSize, 2);
  ThisMachine().ReleaseStreams();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at()), 1);
}

TEST_F(StreamTest, ReadsPageableMemoryOnceTheWorkBeforeItIsDone) {
  CUevent event = nullptr;
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 5, kSize, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream_), CUDA_SUCCESS);
  std::thread release = ReleaseInCallOf("cuMemcpyHtoDAsync");
  ASSERT_EQ(cuMemcpyHtoDAsync(pieces_.at(), pageable_.data(), kSize, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  release.join();
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
}

TEST_F(StreamTest, WritesPinnedMemoryLateAndPageableMemoryBeforeTheCallReturns) {
  ASSERT_EQ(cuMemsetD8(pieces_.at(), 3, kSize), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoHAsync(pageable_.data(), pieces_.at(), kSize, stream_), CUDA_SUCCESS);
  EXPECT_EQ(pageable_[kSize - 1], 3);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemcpyDtoHAsync(pinned_, pieces_.at(), kSize, stream_), CUDA_SUCCESS);
  EXPECT_EQ(pinned_[0], 1);
  ThisMachine().ReleaseStreams();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(pinned_[kSize - 1], 3);
}

TEST_F(StreamTest, WorksInOrder) {
  ThisMachine().HoldStreams();
  for (unsigned char byte = 1; byte <= 50; ++byte) {
    ASSERT_EQ(cuMemsetD8Async(pieces_.at(), byte, kSize, stream_), CUDA_SUCCESS);
    ASSERT_EQ(cuMemcpyDtoDAsync(pieces_.at() + byte * kSize, pieces_.at(), kSize, stream_),
              CUDA_SUCCESS);
  }
  ThisMachine().ReleaseStreams();
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  for (unsigned char byte = 1; byte <= 50; ++byte) {
    EXPECT_EQ(ByteAt(pieces_.at() + byte * kSize), byte);
  }
}

TEST_F(StreamTest, IsNotReadyWhileWorkIsLeft) {
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 1, kSize, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_ERROR_NOT_READY);
  ThisMachine().ReleaseStreams();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream_), CUDA_SUCCESS);
}

TEST_F(StreamTest, FinishesItsWorkAfterItWasDestroyed) {
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 77, kSize, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
  ThisMachine().ReleaseStreams();
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at()), 77);
}

TEST_F(StreamTest, TheNullStreamWaitsForBlockingStreamsOnly) {
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at() + kPiece, 8, kSize, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8(pieces_.at(), 1, kSize), CUDA_SUCCESS) << "nobody waits for that stream";
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 2, kSize, blocking), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamQuery(nullptr), CUDA_ERROR_NOT_READY);
  std::thread release = ReleaseInCallOf("cuMemcpyDtoD");
  EXPECT_EQ(cuMemcpyDtoD(pieces_.at() + kSize, pieces_.at(), kSize), CUDA_SUCCESS);
  release.join();
  EXPECT_EQ(ByteAt(pieces_.at() + kSize), 2);
  EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at()), 2);
  EXPECT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(StreamTest, RefusesUnknownFlagsAndHandles) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreate(&stream, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuStreamCreate(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  const auto none = reinterpret_cast<CUstream>(&stream);
  EXPECT_EQ(cuStreamSynchronize(none), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuMemsetD8Async(pieces_.at(), 0, 1, none), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -100), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(StreamTest, KeepsLinearMemoryUntilTheWorkOnItIsDone) {
  CUdeviceptr at = 0;
  ASSERT_EQ(cuMemAlloc(&at, kSize), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(at, 1, kSize, stream_), CUDA_SUCCESS);
  std::thread release = ReleaseInCallOf("cuMemFree");
  EXPECT_EQ(cuMemFree(at), CUDA_SUCCESS);
  release.join();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
}

class EventTest : public StreamTest {
 protected:
  EventTest() { EXPECT_EQ(cuEventCreate(&event_, CU_EVENT_DEFAULT), CUDA_SUCCESS); }
  ~EventTest() override { EXPECT_EQ(cuEventDestroy(event_), CUDA_SUCCESS); }
  CUevent event_ = nullptr;
};

TEST_F(EventTest, IsDoneBeforeItIsRecordedAndThenWithTheWorkBeforeIt) {
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 9, kSize, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
  ThisMachine().ReleaseStreams();
  EXPECT_EQ(cuEventSynchronize(event_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at()), 9);
}

TEST_F(EventTest, MakesAnotherStreamWait) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  // Much work, so that a stream that does not wait for it is done long before.
  for (unsigned char byte = 1; byte <= 100; ++byte) {
    ASSERT_EQ(cuMemsetD8Async(pieces_.at(), byte, kSize, stream_), CUDA_SUCCESS);
  }
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyDtoDAsync(pieces_.at() + kSize, pieces_.at(), kSize, other), CUDA_SUCCESS);
  ThisMachine().ReleaseStreams();
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event_), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(pieces_.at() + kSize), 100);
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(EventTest, KeepsWhatWasCapturedWhenTheWaitBegan) {
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamWaitEvent(other, event_, 0), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 4, kSize, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS) << "it waits for the first record only";
  EXPECT_EQ(cuEventQuery(event_), CUDA_ERROR_NOT_READY);
  ThisMachine().ReleaseStreams();
  EXPECT_EQ(cuStreamDestroy(other), CUDA_SUCCESS);
}

TEST_F(EventTest, MeasuresTheTimeBetweenTwo) {
  CUevent end = nullptr;
  CUevent no_timing = nullptr;
  float span = -1;
  ASSERT_EQ(cuEventCreate(&end, CU_EVENT_DEFAULT), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&no_timing, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&span, event_, end), CUDA_ERROR_INVALID_HANDLE) << "not recorded";
  ASSERT_EQ(cuEventRecord(event_, stream_), CUDA_SUCCESS);
  ThisMachine().HoldStreams();
  ASSERT_EQ(cuMemsetD8Async(pieces_.at(), 4, kSize, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(end, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&span, event_, end), CUDA_ERROR_NOT_READY);
  ThisMachine().ReleaseStreams();
  ASSERT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&span, event_, end), CUDA_SUCCESS);
  EXPECT_GT(span, 0);
  ASSERT_EQ(cuEventRecord(no_timing, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuEventElapsedTime(&span, event_, no_timing), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(end), CUDA_SUCCESS);
  EXPECT_EQ(cuEventDestroy(no_timing), CUDA_SUCCESS);
}

TEST_F(EventTest, RefusesUnknownFlagsHandlesAndOtherContexts) {
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
  const auto none = reinterpret_cast<CUevent>(&event);
  EXPECT_EQ(cuEventQuery(none), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventRecord(none, stream_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuStreamWaitEvent(stream_, none, 0), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(none), CUDA_ERROR_INVALID_HANDLE);
  CUcontext other = nullptr;
  ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxPushCurrent(other), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, stream_), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxPopCurrent(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(1), CUDA_SUCCESS);
}

}  // namespace
}  // namespace tenure::emulated
