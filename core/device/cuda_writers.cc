#include "core/device/cuda_writers.h"

#include <algorithm>
#include <utility>

namespace tenure {
namespace {

// How often who waits for a writer looks whether the GPU is still there.
constexpr Duration kLookAround = std::chrono::milliseconds(20);

// Where a read into a buffer begins.
constexpr Bytes kReadAlignment = Bytes(64);

CUdeviceptr AddressIn(const Segment& segment, Bytes offset) {
  return segment.device_address().value() + offset.count();
}

}  // namespace

class CudaWriters::Writer final : public SegmentWriter {
 public:
  Writer(CudaWriters& owner, Lane& lane) : owner_(owner), lane_(lane) {}

  ~Writer() override {
    if (Finish().ok() ||
        owner_.gpu_.Await("cuStreamSynchronize", &CudaDriver::cuStreamSynchronize, lane_.stream)
            .ok()) {
      owner_.Return(lane_);
    }
  }

  StatusOr<std::span<std::byte>> Prepare(const Segment& segment, Range target) override {
    const Bytes wanted = std::min(target.size(), Bytes(buffer().bytes.size()));
    if (wanted > Bytes(buffer().bytes.size()) - filled_) TENURE_RETURN_IF_ERROR(TakeTurns());
    source_ = buffer().bytes.subspan(filled_.count(), wanted.count());
    destination_ = AddressIn(segment, target.begin());
    return source_;
  }

  Status Commit() override {
    TENURE_RETURN_IF_ERROR(owner_.gpu_.Call(
        "cuMemcpyHtoDAsync", &CudaDriver::cuMemcpyHtoDAsync, CUdeviceptr{destination_},
        static_cast<const void*>(source_.data()), source_.size(), lane_.stream));
    filled_ = std::min(AlignUp(filled_ + Bytes(source_.size()), kReadAlignment),
                       Bytes(buffer().bytes.size()));
    return absl::OkStatus();
  }

  // An event made for it lets the thread sleep; the stream's own would have it spin.
  Status Finish() override {
    TENURE_RETURN_IF_ERROR(Record());
    return Await();
  }

 private:
  Status QueueCopy(const Segment& source, Range from, const Segment& target, Bytes to) override {
    return owner_.gpu_.Call("cuMemcpyDtoDAsync", &CudaDriver::cuMemcpyDtoDAsync,
                            AddressIn(target, to), AddressIn(source, from.begin()),
                            size_t{from.size().count()}, lane_.stream);
  }

  Status QueueFill(const Segment& segment, Range target, std::byte value) override {
    return owner_.gpu_.Call(
        "cuMemsetD8Async", &CudaDriver::cuMemsetD8Async, AddressIn(segment, target.begin()),
        std::to_integer<unsigned char>(value), size_t{target.size().count()}, lane_.stream);
  }

  Lane::Buffer& buffer() { return lane_.buffers[turn_]; }

  // Goes on with the other buffer once its bytes have arrived.
  Status TakeTurns() {
    TENURE_RETURN_IF_ERROR(Record());
    turn_ = 1 - turn_;
    filled_ = Bytes(0);
    return Await();
  }

  Status Record() {
    return owner_.gpu_.Call("cuEventRecord", &CudaDriver::cuEventRecord, buffer().emptied,
                            lane_.stream);
  }

  // An event that was never recorded has happened.
  Status Await() {
    return owner_.gpu_.Await("cuEventSynchronize", &CudaDriver::cuEventSynchronize,
                             buffer().emptied);
  }

  CudaWriters& owner_;
  Lane& lane_;
  size_t turn_ = 0;  // the buffer that is being filled
  Bytes filled_;     // of it
  std::span<std::byte> source_;
  CUdeviceptr destination_ = 0;
};

StatusOr<std::unique_ptr<CudaWriters>> CudaWriters::Make(CudaGpu& gpu, size_t count, Bytes buffer) {
  TENURE_CHECK(count >= 1 && !buffer.zero());
  TENURE_RETURN_IF_ERROR(gpu.Bind());
  std::unique_ptr<CudaWriters> writers(new CudaWriters(gpu, count));
  const size_t size = buffer.count();
  TENURE_RETURN_IF_ERROR(gpu.Call("cuMemHostAlloc", &CudaDriver::cuMemHostAlloc, &writers->pinned_,
                                  count * 2 * size, unsigned{CU_MEMHOSTALLOC_PORTABLE}));
  auto* next = static_cast<std::byte*>(writers->pinned_);
  for (Lane& lane : writers->lanes_) {
    TENURE_RETURN_IF_ERROR(gpu.Call("cuStreamCreate", &CudaDriver::cuStreamCreate, &lane.stream,
                                    unsigned{CU_STREAM_NON_BLOCKING}));
    for (Lane::Buffer& half : lane.buffers) {
      half.bytes = {std::exchange(next, next + size), size};
      TENURE_RETURN_IF_ERROR(gpu.Call("cuEventCreate", &CudaDriver::cuEventCreate, &half.emptied,
                                      unsigned{CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC}));
    }
    const MutexLock lock(writers->mutex_);
    writers->free_.push_back(&lane);
  }
  return writers;
}

CudaWriters::~CudaWriters() {
  // What the driver says to a process that leaves changes nothing.
  if (!gpu_.Bind().ok()) return;
  for (const Lane& lane : lanes_) {
    for (const Lane::Buffer& half : lane.buffers) {
      if (half.emptied == nullptr) continue;
      (void)gpu_.Call("cuEventDestroy", &CudaDriver::cuEventDestroy, half.emptied);
    }
    if (lane.stream == nullptr) continue;
    (void)gpu_.Call("cuStreamDestroy", &CudaDriver::cuStreamDestroy, lane.stream);
  }
  if (pinned_ == nullptr) return;
  (void)gpu_.Call("cuMemFreeHost", &CudaDriver::cuMemFreeHost, pinned_);
}

StatusOr<std::unique_ptr<SegmentWriter>> CudaWriters::Open() {
  TENURE_RETURN_IF_ERROR(gpu_.Bind());
  const MutexLock lock(mutex_);
  while (free_.empty()) {
    TENURE_RETURN_IF_ERROR(gpu_.Lost());
    returned_.WaitFor(mutex_, kLookAround);
  }
  Lane& lane = *free_.back();
  free_.pop_back();
  return std::make_unique<Writer>(*this, lane);
}

void CudaWriters::Return(Lane& lane) {
  const MutexLock lock(mutex_);
  free_.push_back(&lane);
  returned_.NotifyOne();
}

}  // namespace tenure
