// A session whose leases are on a CUDA device: what it tells the daemon, and when, if the driver is
// slow, refuses, or never comes back.

#include <chrono>
#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <vector>

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
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kRegionBytes = 6 * kMiB;

class CudaSessionTest : public ::testing::Test {
 protected:
  CudaSessionTest() {
    Open();
    for (const uint64_t lease : {1u, 2u}) {
      peer_->Offer(
          lease, 10,
          {{[this] { return a_.Export(); }, 4 * kMiB}, {[this] { return b_.Export(); }, 2 * kMiB}});
    }
  }
  ~CudaSessionTest() override {
    machine_.ClearFaults();
    session_.reset();
  }

  void Open() {
    const std::string path = temp_ / "handle.sock";
    peer_ = std::make_unique<HandlePeer>(path);
    session_ = *HandleSession::Open(path, "test", "1", Deadline(seconds(10)), survivors_);
  }
  // Two leases on the same region of six MiB; another id is another lease.
  static std::shared_ptr<HeldLease> Lease(uint64_t id, const std::string& uuid) {
    return std::make_shared<HeldLease>(
        id, LeasedDevice{.name = "gpu:0", .memory_kind = MemoryKind::kCuda, .uuid = uuid}, 10,
        kRegionBytes, seconds(2), Now());
  }
  std::shared_ptr<HeldLease> HostLease() {
    const auto segment = [] {
      UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
      EXPECT_EQ(ftruncate(fd.get(), 2 * kMiB), 0);
      return fd;
    };
    peer_->Offer(3, 30, {{segment, 2 * kMiB}});
    return std::make_shared<HeldLease>(3, LeasedDevice{.name = "host:0"}, 30, 2 * kMiB, seconds(2),
                                       Now());
  }
  absl::StatusOr<const Mapping*> Hold(const std::shared_ptr<HeldLease>& lease,
                                      Duration within = seconds(20)) {
    return session_->Hold(lease, Deadline(within));
  }
  // Mapped, and idle again.
  const std::byte* MapAndDrop() {
    const absl::StatusOr<const Mapping*> mapping = Hold(first_);
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    const std::byte* const base = (*mapping)->base();
    session_->Drop(*first_);
    return base;
  }
  // The driver has been called for the first share, which the daemon wants back.
  void RecallUntilCalled(const char* entry) {
    const uint64_t before = machine_.CallsOf(entry);
    peer_->Recall(1);
    EXPECT_TRUE(Eventually([&] { return machine_.CallsOf(entry) > before; }));
  }
  bool HeardEventually(const std::string& what) {
    return Eventually([&] {
      const std::vector<std::string> heard = peer_->Heard();
      return std::find(heard.begin(), heard.end(), what) != heard.end();
    });
  }
  bool Heard(const std::string& what) {
    const std::vector<std::string> heard = peer_->Heard();
    return std::find(heard.begin(), heard.end(), what) != heard.end();
  }
  uint64_t SurvivingBytes() const {
    uint64_t bytes = 0;
    const Survivors::Report report = survivors_->MakeReport();
    for (const v1::SurvivingMemory& each : report.surviving.memories()) {
      bytes += each.bytes();
    }
    return bytes;
  }
  bool HeartbeatsGoOn() {
    const size_t before = peer_->heartbeats();
    return Eventually([&] { return peer_->heartbeats() > before + 5; });
  }

  EmulatedGpu& machine_ = Machine();
  const std::shared_ptr<CudaDevice> exporter_ = Device(kFirstGpu);
  const CudaSegment a_{exporter_, 4 * kMiB, 'a'};
  const CudaSegment b_{exporter_, 2 * kMiB, 'b'};
  const TempDir temp_;
  const std::shared_ptr<Survivors> survivors_ = std::make_shared<Survivors>();
  std::unique_ptr<HandlePeer> peer_;
  std::unique_ptr<HandleSession> session_;
  const std::shared_ptr<HeldLease> first_ = Lease(1, UuidOf(kFirstGpu));
  const std::shared_ptr<HeldLease> second_ = Lease(2, UuidOf(kFirstGpu));
};

TEST_F(CudaSessionTest, ALeaseIsMappedAndComesBackAtItsAddress) {
  const std::byte* const base = MapAndDrop();
  const absl::StatusOr<const Mapping*> again = Hold(second_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->base(), base);
  std::vector<std::byte> bytes(2);
  ASSERT_TRUE((*again)->CopyToHost(4 * kMiB - 1, bytes).ok());
  EXPECT_EQ(static_cast<char>(bytes[0]), 'a');
  EXPECT_EQ(static_cast<char>(bytes[1]), 'b');
  EXPECT_TRUE(HeardEventually("ack 1 2"));
  EXPECT_THAT(peer_->Heard(), ElementsAre("fetch 1 0", "ack 1 1", "fetch 1 1", "ack 1 2"));
  session_->Drop(*second_);
}

TEST_F(CudaSessionTest, ARecallIsAnsweredOnceTheDriverHasUnmapped) {
  MapAndDrop();
  const std::string hung = machine_.Hang("cuMemAddressFree");
  peer_->Recall(1);
  EXPECT_TRUE(HeartbeatsGoOn());
  EXPECT_FALSE(Heard("unmapped 1"));
  machine_.ClearFaults();
  EXPECT_TRUE(HeardEventually("unmapped 1"));
  EXPECT_EQ(session_->mapped_region_count(), 0u);
}

TEST_F(CudaSessionTest, ARegionIsFetchedAgainAfterItsOldMappingWasTold) {
  MapAndDrop();
  machine_.Delay("cuMemUnmap", milliseconds(200), {});
  RecallUntilCalled("cuMemUnmap");
  const absl::StatusOr<const Mapping*> again = Hold(second_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(HeardEventually("ack 2 2"));
  EXPECT_THAT(peer_->Heard(),
              ElementsAre("fetch 1 0", "ack 1 1", "fetch 1 1", "ack 1 2", "unmapped 1", "fetch 2 0",
                          "ack 2 1", "fetch 2 1", "ack 2 2"));
  session_->Drop(*second_);
}

TEST_F(CudaSessionTest, ADriverThatHangsWhileMappingKeepsNobodyElse) {
  const std::string hung = machine_.Hang("cuMemMap");
  const absl::StatusOr<const Mapping*> mapping = Hold(first_, milliseconds(200));
  EXPECT_EQ(mapping.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(mapping.status().message()), HasSubstr("CUDA driver"));
  EXPECT_TRUE(HeartbeatsGoOn());

  peer_->Offer(3, 30,
               {{[] {
                   UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
                   EXPECT_EQ(ftruncate(fd.get(), 2 * kMiB), 0);
                   return fd;
                 },
                 2 * kMiB}});
  const auto other = std::make_shared<HeldLease>(3, LeasedDevice{.name = "host:0"}, 30, 2 * kMiB,
                                                 seconds(2), Now());
  EXPECT_TRUE(Hold(other).ok());
  session_->Drop(*other);
  machine_.ClearFaults();
  EXPECT_TRUE(Eventually([&] { return session_->mapped_region_count() == 2; }));
}

TEST_F(CudaSessionTest, ADeviceThatHangsKeepsNoOtherDevice) {
  const std::shared_ptr<CudaDevice> device = Device(kSecondGpu);
  const CudaSegment segment(device, 2 * kMiB, 'c');
  peer_->Offer(4, 40, {{[&] { return segment.Export(); }, 2 * kMiB}});
  const auto other = std::make_shared<HeldLease>(
      4,
      LeasedDevice{.name = "gpu:1", .memory_kind = MemoryKind::kCuda, .uuid = UuidOf(kSecondGpu)},
      40, 2 * kMiB, seconds(2), Now());
  const std::string hung = machine_.Hang("cuMemMap");
  EXPECT_EQ(Hold(first_, milliseconds(200)).status().code(), absl::StatusCode::kDeadlineExceeded);
  const absl::StatusOr<const Mapping*> mapping = Hold(other);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  std::vector<std::byte> byte(1);
  ASSERT_TRUE((*mapping)->CopyToHost(0, byte).ok());
  EXPECT_EQ(static_cast<char>(byte[0]), 'c');
  session_->Drop(*other);
  peer_->Recall(2);
  EXPECT_TRUE(HeardEventually("unmapped 2"));
  machine_.ClearFaults();
  EXPECT_TRUE(HeardEventually("ack 1 2"));
}

TEST_F(CudaSessionTest, ADriverThatHangsWhileItStartsKeepsNobodyElse) {
  const std::string hung = machine_.Hang("cuInit");
  EXPECT_EQ(Hold(first_, milliseconds(200)).status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(HeartbeatsGoOn());
  const std::shared_ptr<HeldLease> other = HostLease();
  EXPECT_TRUE(Hold(other).ok());
  session_->Drop(*other);
}

TEST_F(CudaSessionTest, ADeviceThatIsNotHereIsRefusedBeforeAnythingIsFetched) {
  const auto lease = Lease(1, UuidOf(kTinyGpu + 1));
  EXPECT_EQ(ErrorReason(Hold(lease).status()), "CUDA_DEVICE_NOT_FOUND");
  EXPECT_TRUE(peer_->Heard().empty());
  // Whoever asks again is refused again, not kept.
  EXPECT_EQ(ErrorReason(Hold(lease).status()), "CUDA_DEVICE_NOT_FOUND");
}

TEST_F(CudaSessionTest, AMappingThatFailsHalfWayIsUndoneAndTold) {
  const Bytes before = machine_.LiveBytes(kFirstGpu);
  machine_.Fail("cuMemMap", CUDA_ERROR_OUT_OF_MEMORY, {.first = 2});
  const absl::StatusOr<const Mapping*> mapping = Hold(first_);
  EXPECT_EQ(mapping.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(HeardEventually("unmapped 1"));
  EXPECT_EQ(peer_->Heard().back(), "unmapped 1");
  EXPECT_EQ(session_->mapped_region_count(), 0u);
  EXPECT_EQ(machine_.LiveBytes(kFirstGpu), before);
}

TEST_F(CudaSessionTest, WhatCannotBeUnmappedIsNeverToldAndWhoAsksAgainHearsWhy) {
  MapAndDrop();
  machine_.Fail("cuMemUnmap", CUDA_ERROR_LAUNCH_FAILED);
  RecallUntilCalled("cuMemUnmap");
  const absl::StatusOr<const Mapping*> again = Hold(second_);
  EXPECT_EQ(ErrorReason(again.status()), "CUDA_FAILED");
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("unmapping"));
  EXPECT_TRUE(HeartbeatsGoOn());
  session_.reset();
  EXPECT_FALSE(Heard("unmapped 1"));
  EXPECT_TRUE(HeardEventually("goodbye"));
  // The next daemon has to know.
  EXPECT_EQ(SurvivingBytes(), kRegionBytes);
}

TEST_F(CudaSessionTest, ACaptureOnlyPutsTheAnswerOff) {
  MapAndDrop();
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  peer_->Recall(1);
  EXPECT_TRUE(HeardEventually("unmapped 1"));
}

TEST_F(CudaSessionTest, ACaptureKeepsNobodyElseOnItsDevice) {
  MapAndDrop();
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, {.times = 0});
  RecallUntilCalled("cuCtxSynchronize");
  const uint64_t tries = machine_.CallsOf("cuCtxSynchronize");
  peer_->Offer(5, 50, {{[this] { return b_.Export(); }, 2 * kMiB}});
  const auto other = std::make_shared<HeldLease>(
      5, LeasedDevice{.name = "gpu:0", .memory_kind = MemoryKind::kCuda, .uuid = UuidOf(kFirstGpu)},
      50, 2 * kMiB, seconds(2), Now());
  EXPECT_TRUE(Hold(other).ok());
  // It is tried again after half a second only.
  EXPECT_EQ(machine_.CallsOf("cuCtxSynchronize"), tries);
  session_->Drop(*other);
  EXPECT_FALSE(Heard("unmapped 1"));
  machine_.ClearFaults();
  EXPECT_TRUE(HeardEventually("unmapped 1"));
}

TEST_F(CudaSessionTest, ClosingLetsEverythingGoAndSaysGoodbyeLast) {
  const Bytes before = machine_.LiveBytes(kFirstGpu);
  const uint64_t released = machine_.CallsOf("cuDevicePrimaryCtxRelease");
  MapAndDrop();
  session_.reset();
  EXPECT_EQ(machine_.CallsOf("cuDevicePrimaryCtxRelease"), released + 1);
  EXPECT_TRUE(HeardEventually("goodbye"));
  EXPECT_EQ(peer_->Heard().back(), "goodbye");
  EXPECT_TRUE(Heard("unmapped 1"));
  EXPECT_EQ(machine_.LiveBytes(kFirstGpu), before);
  EXPECT_EQ(SurvivingBytes(), 0u);
}

TEST_F(CudaSessionTest, ClosingWaitsFiveSecondsForADriverThatHangs) {
  MapAndDrop();
  const std::string hung = machine_.Hang("cuMemUnmap");
  const Instant before = Now();
  session_.reset();
  EXPECT_LT(Now() - before, seconds(8));
  EXPECT_GT(Now() - before, seconds(4));
  EXPECT_FALSE(Heard("unmapped 1"));
  EXPECT_EQ(SurvivingBytes(), kRegionBytes);
}

TEST_F(CudaSessionTest, WhatIsMappedOfADaemonThatIsGoneSurvivesUntilItsLeaseEnds) {
  ASSERT_TRUE(Hold(first_).ok());
  peer_->HangUp();
  EXPECT_TRUE(Eventually([&] { return SurvivingBytes() == kRegionBytes; }));
  EXPECT_TRUE(first_->lost());
  session_->Drop(*first_);
  EXPECT_TRUE(Eventually([&] { return SurvivingBytes() == 0; }));
}

TEST_F(CudaSessionTest, WhatCannotBeUnmappedOfADaemonThatIsGoneSurvives) {
  ASSERT_TRUE(Hold(first_).ok());
  peer_->HangUp();
  EXPECT_TRUE(Eventually([&] { return first_->lost(); }));
  machine_.Fail("cuCtxSynchronize", CUDA_ERROR_LAUNCH_FAILED);
  const uint64_t calls = machine_.CallsOf("cuCtxSynchronize");
  session_->Drop(*first_);
  EXPECT_TRUE(Eventually([&] { return machine_.CallsOf("cuCtxSynchronize") > calls; }));
  session_.reset();
  EXPECT_EQ(SurvivingBytes(), kRegionBytes);
}

TEST_F(CudaSessionTest, NothingOfCudaIsCalledForLeasesOfTheHost) {
  const uint64_t before = machine_.CallsOf("cuInit");
  const std::shared_ptr<HeldLease> lease = HostLease();
  EXPECT_TRUE(Hold(lease).ok());
  session_->Drop(*lease);
  EXPECT_EQ(machine_.CallsOf("cuInit"), before);
}

}  // namespace
}  // namespace tenure::client
