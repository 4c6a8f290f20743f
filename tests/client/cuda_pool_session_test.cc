// A session whose pool is on a CUDA device: what it tells the daemon, and when, if the driver is
// slow, refuses, or never comes back.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cuda.h>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "client/cpp/cuda_events.h"
#include "client/cpp/handle_session.h"
#include "tenure/errors.h"
#include "tests/client/cuda_machine.h"
#include "tests/client/eventually.h"
#include "tests/client/handle_peer.h"
#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr uint64_t kSegment = uint64_t{2} << 20;
constexpr uint64_t kGpuPool = 7;
constexpr uint64_t kHostPool = 8;

PoolSpec GpuPool() {
  return {.pool_id = kGpuPool,
          .device = {.name = "gpu:0", .memory_kind = MemoryKind::kCuda, .uuid = UuidOf(kFirstGpu)},
          .range_bytes = 64 * kSegment,
          .segment_bytes = kSegment,
          .ttl = seconds(60)};
}

PoolSpec HostPool() {
  PoolSpec pool = GpuPool();
  pool.pool_id = kHostPool;
  pool.device = {.name = "host:0"};
  return pool;
}

class CudaPoolSessionTest : public ::testing::Test {
 protected:
  CudaPoolSessionTest() {
    peer_->OfferPool(kSegment, [this] { return segment_.Export(); });
    session_->SetGiveBack([this](uint64_t, const std::vector<uint64_t>& offsets) {
      const std::lock_guard lock(mutex_);
      given_back_.insert(given_back_.end(), offsets.begin(), offsets.end());
    });
  }
  ~CudaPoolSessionTest() override {
    machine_.ClearFaults();
    session_.reset();
  }

  absl::StatusOr<std::shared_ptr<PoolMapping>> Map(const PoolSpec& pool,
                                                   std::vector<uint64_t> offsets,
                                                   Duration within = seconds(20)) {
    return session_->MapSegments(pool, std::move(offsets), Deadline(within));
  }
  size_t CountOf(const std::string& start) const {
    const std::vector<std::string> heard = peer_->Heard();
    return static_cast<size_t>(std::count_if(
        heard.begin(), heard.end(), [&](const auto& word) { return word.starts_with(start); }));
  }
  bool HeardEventually(const std::string& what, size_t times = 1) const {
    return Eventually([&] { return CountOf(what) == times; });
  }
  bool HeartbeatsGoOn() const {
    const size_t before = peer_->heartbeats();
    return Eventually([&] { return peer_->heartbeats() > before + 5; });
  }
  uint64_t SurvivingBytes() const {
    uint64_t bytes = 0;
    const Survivors::Report report = survivors_->MakeReport();
    for (const auto& each : report.surviving.memories()) bytes += each.runtime_bytes();
    return bytes;
  }
  void OfferHostMemory() {
    peer_->OfferPool(kSegment, [] {
      UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
      EXPECT_EQ(ftruncate(fd.get(), kSegment), 0);
      return fd;
    });
  }

  EmulatedGpu& machine_ = Machine();
  const std::shared_ptr<CudaDevice> exporter_ = Device(kFirstGpu);
  const CudaSegment segment_{exporter_, kSegment, 'a'};
  const TempDir temp_;
  const std::shared_ptr<Survivors> survivors_ = std::make_shared<Survivors>();
  std::unique_ptr<HandlePeer> peer_ = std::make_unique<HandlePeer>(temp_ / "handle.sock");
  std::unique_ptr<HandleSession> session_ =
      *HandleSession::Open(temp_ / "handle.sock", "test", "1", Deadline(seconds(10)), survivors_);
  std::mutex mutex_;
  std::vector<uint64_t> given_back_;  // guarded by mutex_
};

TEST_F(CudaPoolSessionTest, ASegmentIsMappedAtItsOffsetAndWritable) {
  const auto mapping = Map(GpuPool(), {0, 3 * kSegment});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_TRUE((*mapping)->cuda_ordinal().has_value());
  const auto at = reinterpret_cast<CUdeviceptr>((*mapping)->base()) + 3 * kSegment;
  {
    const CudaScope scope(*exporter_);
    TENURE_CALL_DRIVER(cuMemsetD8, at, static_cast<unsigned char>('b'), kSegment);
    std::vector<char> bytes(1);
    TENURE_CALL_DRIVER(cuMemcpyDtoH, static_cast<void*>(bytes.data()), at + kSegment - 1,
                       size_t{1});
    EXPECT_EQ(bytes[0], 'b');
  }
  const uint64_t live = machine_.LiveBytes(kFirstGpu).count();
  session_->UnmapSegments(kGpuPool, {0, 3 * kSegment});
  EXPECT_TRUE(HeardEventually("unmapped", 2));
  EXPECT_LE(machine_.LiveBytes(kFirstGpu).count(), live);
}

TEST_F(CudaPoolSessionTest, AMappingThatFailsHalfWayIsUndoneBeforeItIsTold) {
  const uint64_t before = machine_.LiveBytes(kFirstGpu).count();
  for (const char* entry : {"cuMemMap", "cuMemSetAccess", "cuMemImportFromShareableHandle"}) {
    machine_.Fail(entry, CUDA_ERROR_OUT_OF_MEMORY, {.first = 2});
    const size_t told = CountOf("unmapped");
    EXPECT_FALSE(Map(GpuPool(), {0, kSegment, 2 * kSegment}).ok()) << entry;
    EXPECT_TRUE(HeardEventually("unmapped", told + 3)) << entry;
    machine_.ClearFaults();
    // Nothing lies in the way.
    EXPECT_TRUE(Map(GpuPool(), {0, kSegment, 2 * kSegment}).ok()) << entry;
    session_->UnmapSegments(kGpuPool, {0, kSegment, 2 * kSegment});
    EXPECT_TRUE(HeardEventually("unmapped", told + 6)) << entry;
  }
  session_.reset();
  EXPECT_EQ(machine_.LiveBytes(kFirstGpu).count(), before);
}

TEST_F(CudaPoolSessionTest, WhatAFailedMappingCannotUndoIsNeverTold) {
  machine_.Fail("cuMemMap", CUDA_ERROR_OUT_OF_MEMORY, {.first = 3});
  machine_.Fail("cuMemUnmap", CUDA_ERROR_LAUNCH_FAILED, {.times = 0});
  EXPECT_FALSE(Map(GpuPool(), {0, kSegment, 2 * kSegment}).ok());
  // The third was never mapped.
  EXPECT_TRUE(HeardEventually("unmapped 3"));
  EXPECT_TRUE(HeartbeatsGoOn());
  EXPECT_EQ(CountOf("unmapped"), 1u);
  session_.reset();
  EXPECT_EQ(CountOf("unmapped"), 1u);
  EXPECT_EQ(SurvivingBytes(), 2 * kSegment);
}

TEST_F(CudaPoolSessionTest, ACaptureOnlyPutsUnmappingOff) {
  ASSERT_TRUE(Map(GpuPool(), {0}).ok());
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {.times = 0});
  const uint64_t calls = machine_.CallsOf("cuCtxSynchronize");
  session_->UnmapSegments(kGpuPool, {0});
  EXPECT_TRUE(Eventually([&] { return machine_.CallsOf("cuCtxSynchronize") > calls; }));
  // Meanwhile the pool grows.
  EXPECT_TRUE(Map(GpuPool(), {kSegment}).ok());
  EXPECT_EQ(CountOf("unmapped"), 0u);
  machine_.ClearFaults();
  EXPECT_TRUE(HeardEventually("unmapped 1"));
}

TEST_F(CudaPoolSessionTest, WhatAFailedMappingLeftIsUnmappedOnceACaptureIsOver) {
  machine_.Fail("cuMemMap", CUDA_ERROR_OUT_OF_MEMORY, {.first = 2});
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {.times = 1});
  EXPECT_FALSE(Map(GpuPool(), {0, kSegment}).ok());
  EXPECT_TRUE(HeardEventually("unmapped", 2));
  EXPECT_GT(machine_.CallsOf("cuCtxSynchronize"), 1u);
}

TEST_F(CudaPoolSessionTest, AHungGpuKeepsNeitherHeartbeatsNorThePoolOfTheHost) {
  const std::string hung = machine_.Hang("cuMemMap");
  const absl::Status late = Map(GpuPool(), {0, kSegment}, milliseconds(200)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  EXPECT_TRUE(HeartbeatsGoOn());
  OfferHostMemory();
  const auto mapping = Map(HostPool(), {0}, seconds(5));
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  (*mapping)->base()[0] = std::byte{1};
  session_->UnmapSegments(kHostPool, {0});
  EXPECT_TRUE(HeardEventually("unmapped 3"));
  machine_.ClearFaults();
  EXPECT_TRUE(HeardEventually("unmapped", 3));
}

TEST_F(CudaPoolSessionTest, WhatIsWantedBackWhileItIsMappedIsUnmappedRightAfter) {
  const std::string hung = machine_.Hang("cuMemMap");
  const absl::Status late = Map(GpuPool(), {0}, milliseconds(100)).status();
  EXPECT_FALSE(late.ok());
  v1::DaemonPacket recall;
  recall.mutable_pool_recall()->set_pool_id(kGpuPool);
  recall.mutable_pool_recall()->add_share_serials(1);
  peer_->Say(recall);
  EXPECT_TRUE(HeartbeatsGoOn());
  EXPECT_EQ(CountOf("unmapped"), 0u);
  machine_.ClearFaults();
  EXPECT_TRUE(HeardEventually("unmapped 1"));
}

TEST_F(CudaPoolSessionTest, WhoWaitsForMemoryThatIsWantedBackMeanwhileIsTold) {
  machine_.Delay("cuMemMap", milliseconds(500), {});
  peer_->EditPoolBatches([](v1::DaemonPacket&, std::vector<UniqueFd>&) { return true; });
  std::thread recaller([&] {
    EXPECT_TRUE(HeardEventually("ack 1"));
    v1::DaemonPacket recall;
    recall.mutable_pool_recall()->set_pool_id(kGpuPool);
    recall.mutable_pool_recall()->add_share_serials(1);
    peer_->Say(recall);
  });
  const absl::Status status = Map(GpuPool(), {0}).status();
  recaller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
  EXPECT_TRUE(HeardEventually("unmapped 1"));
}

// Asks the driver, as a pool does that waits for an event.
class Asker final : public PoolListener {
 public:
  explicit Asker(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  void OnMemoryWanted(uint64_t) override { Ask(); }
  void OnPoolLost(const std::string&) override {}
  void OnSweep(Instant) override { Ask(); }

  std::atomic<int> asking = 0;
  std::atomic<int> most_asking = 0;
  std::atomic<int> answered = 0;

 private:
  void Ask() {
    most_asking = std::max(most_asking.load(), ++asking);
    DriverCudaEvents(device_)->Reached(nullptr);
    --asking;
    ++answered;
  }

  const std::shared_ptr<CudaDevice> device_;
};

class SweepCount final : public PoolListener {
 public:
  void OnMemoryWanted(uint64_t) override {}
  void OnPoolLost(const std::string&) override {}
  void OnSweep(Instant) override { ++sweeps; }

  std::atomic<int> sweeps = 0;
};

TEST_F(CudaPoolSessionTest, APoolThatAsksAHungDriverKeepsNeitherHeartbeatsNorAnotherPool) {
  ASSERT_TRUE(Map(GpuPool(), {0}).ok());
  const auto asker = std::make_shared<Asker>(exporter_);
  ASSERT_TRUE(session_->Listen(kGpuPool, asker));
  EXPECT_TRUE(Eventually([&] { return asker->answered > 0; }));
  const std::string hung = machine_.Hang("cuEventQuery", {.times = 0});
  EXPECT_TRUE(Eventually([&] { return asker->asking > 0; }));
  EXPECT_TRUE(HeartbeatsGoOn());
  OfferHostMemory();
  EXPECT_TRUE(Map(HostPool(), {0}, seconds(5)).ok());
  const auto swept = std::make_shared<SweepCount>();
  ASSERT_TRUE(session_->Listen(kHostPool, swept));
  EXPECT_TRUE(Eventually([&] { return swept->sweeps >= 3; }));
  const int before = asker->answered;
  machine_.ClearFaults();
  EXPECT_TRUE(Eventually([&] { return asker->answered > before; }));
  EXPECT_EQ(asker->most_asking, 1);
}

TEST_F(CudaPoolSessionTest, ClosingWaitsFiveSecondsForADriverThatHangs) {
  ASSERT_TRUE(Map(GpuPool(), {0}).ok());
  const std::string hung = machine_.Hang("cuMemUnmap");
  const Instant before = Now();
  session_->UnmapSegments(kGpuPool, {0});
  session_.reset();
  EXPECT_LT(Now() - before, seconds(8));
  EXPECT_EQ(CountOf("unmapped"), 0u);
  EXPECT_EQ(SurvivingBytes(), kSegment);
}

TEST_F(CudaPoolSessionTest, ClosingDoesNotWaitForADriverThatHangsOverAnEmptyRange) {
  ASSERT_TRUE(Map(GpuPool(), {0}).ok());
  session_->UnmapSegments(kGpuPool, {0});
  EXPECT_TRUE(HeardEventually("unmapped 1"));
  const std::string hung = machine_.Hang("cuMemAddressFree");
  const Instant before = Now();
  session_.reset();
  EXPECT_LT(Now() - before, seconds(8));
}

}  // namespace
}  // namespace tenure::client
