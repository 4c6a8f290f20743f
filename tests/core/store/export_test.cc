#include <future>

#include "tests/core/store/store_fixture.h"
#include "tests/support/faulty_device.h"

// Exports of one Share that overlap with one another and with its end: whoever got fds has a Share.

namespace tenure {
namespace {

using std::chrono::seconds;

class ExportTest : public StoreTest {
 protected:
  std::unique_ptr<Device> Show(std::unique_ptr<SmallDevice> device) override {
    return std::make_unique<FaultyDevice>(std::move(device), steps_);
  }

  // "a", leased, and without an owner once the lease ends.
  GrantedLease LeaseOffline() {
    WriteModel("a", {KiB(40)}, 1);
    LoadRequest request = RequestFor("a", "a");
    request.acquire = true;
    request.retain_ttl = Duration::zero();
    const StatusOr<LoadResult> loaded = store_->Load(request, {});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_TRUE(Unload("a").ok());
    return *loaded->lease;
  }

  // An export that hangs at the `k`-th Segment.
  std::future<StatusOr<ShareExport>> HeldExport(LeaseId lease, int k) {
    steps_.Hold(k);
    auto held = std::async(std::launch::async,
                           [this, lease] { return store_->ExportShare(session_, lease, 0, 64); });
    EXPECT_TRUE(steps_.gate().AwaitArrival());
    return held;
  }

  uint32_t Shares() const { return store_->UseBy(session_).shares; }

  FaultySteps steps_;
};

TEST_F(ExportTest, AFailedExportEndsAShareOnlyIfNothingWasSentUnderIt) {
  Start();
  const GrantedLease lease = LeaseOffline();
  auto held = HeldExport(lease.id, 2);
  ASSERT_TRUE(store_->ExportShare(session_, lease.id, 0, 64).ok());
  steps_.FailNext();
  steps_.gate().Hold(false);
  EXPECT_TRUE(HasReason(held.get().status(), Reason::kBackend));
  EXPECT_EQ(Shares(), 1U);
}

TEST_F(ExportTest, AFailedExportLeavesTheShareToAnotherThatIsUnderWay) {
  Start();
  const GrantedLease lease = LeaseOffline();
  auto held = HeldExport(lease.id, 1);
  steps_.FailNext();
  EXPECT_TRUE(HasReason(store_->ExportShare(session_, lease.id, 0, 64).status(), Reason::kBackend));
  EXPECT_EQ(Shares(), 1U);
  steps_.gate().Hold(false);
  EXPECT_TRUE(held.get().ok());
  EXPECT_EQ(Shares(), 1U);
}

TEST_F(ExportTest, WhoGaveAShareBackMeanwhileGetsNoFds) {
  Start();
  const GrantedLease lease = LeaseOffline();
  auto held = HeldExport(lease.id, 2);
  ASSERT_TRUE(store_->Unmapped(session_, ShareSerial(1)));
  steps_.gate().Hold(false);
  EXPECT_TRUE(HasReason(held.get().status(), Reason::kCancelled));
  EXPECT_EQ(Shares(), 0U);
}

TEST_F(ExportTest, ARegionStaysWhileItIsExportedWhoeverLetsGoOfIt) {
  Start();
  const GrantedLease lease = LeaseOffline();
  auto held = HeldExport(lease.id, 2);
  store_->EndSession(session_);
  Pass(seconds(1));
  EXPECT_EQ(LedgerNow().retained, KiB(40));
  steps_.gate().Hold(false);
  EXPECT_TRUE(HasReason(held.get().status(), Reason::kCancelled));
  Pass(seconds(1));
  EXPECT_TRUE(store_->Models().empty());
}

}  // namespace
}  // namespace tenure
