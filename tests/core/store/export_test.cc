#include "tests/core/store/store_fixture.h"
#include "tests/support/faulty_device.h"

// Exports, from their beginning to their end: whoever may have got fds has a Share, and whoever got
// none has not.

namespace tenure {
namespace {

using std::chrono::seconds;

class ExportTest : public StoreTest {
 protected:
  ~ExportTest() override { steps_.gate().Hold(false); }

  std::unique_ptr<Device> Show(std::unique_ptr<SmallDevice> device) override {
    return std::make_unique<FaultyDevice>(std::move(device), steps_);
  }

  // "a" in three Segments, leased, and without an owner once the lease ends.
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

  // An export of the first Segment.
  ExportId Begin(LeaseId lease) {
    const StatusOr<ExportId> begun = store_->BeginExport(session_, lease, 0, 1);
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.ok() ? *begun : ExportId();
  }
  // One that hangs in the Device.
  ExportId BeginHeld(LeaseId lease) {
    steps_.Hold(1);
    const ExportId id = Begin(lease);
    EXPECT_TRUE(steps_.gate().AwaitArrival());
    return id;
  }
  // One that is done, and not sent yet.
  ExportId BeginAndAwait(LeaseId lease) {
    const ExportId id = Begin(lease);
    const StatusOr<ShareExport> batch = events_.AwaitExported(id);
    EXPECT_TRUE(batch.ok()) << batch.status();
    return id;
  }
  // Until the Device is done with every export that was begun before.
  void AwaitTheThread(LeaseId lease) {
    const ExportId last = BeginAndAwait(lease);
    EXPECT_TRUE(store_->EndExport(last, /*sent=*/false));
  }

  Reason ReasonOf(const Status& status) {
    for (const Reason reason : kAllReasons) {
      if (HasReason(status, reason)) return reason;
    }
    ADD_FAILURE() << "no reason: " << status;
    return {};
  }
  uint32_t Shares() const { return store_->UseBy(session_).shares; }
  // The Region goes with the last who used it.
  void ExpectAllIsFree() {
    Pass(seconds(1));
    EXPECT_TRUE(store_->Models().empty());
    EXPECT_EQ(LedgerNow().free(), LedgerNow().capacity);
  }

  FaultySteps steps_;
};

TEST_F(ExportTest, AShareIsThereFromTheBeginningOfItsFirstExport) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId held = BeginHeld(lease.id);
  EXPECT_EQ(Shares(), 1U);
  steps_.gate().Hold(false);
  EXPECT_TRUE(events_.AwaitExported(held).ok());
  EXPECT_EQ(Shares(), 1U);
  EXPECT_TRUE(store_->CheckExport(held).ok());
  EXPECT_TRUE(store_->EndExport(held, /*sent=*/true));
  EXPECT_EQ(Shares(), 1U);
  EXPECT_FALSE(store_->EndExport(held, /*sent=*/false));
  EXPECT_EQ(Shares(), 1U);
}

TEST_F(ExportTest, AShareEndsWithAnExportThatWasNotSent) {
  Start();
  const GrantedLease lease = LeaseOffline();
  EXPECT_TRUE(store_->EndExport(BeginAndAwait(lease.id), /*sent=*/false));
  EXPECT_EQ(Shares(), 0U);
  EXPECT_TRUE(store_->Release(session_, lease.id).ok());
  ExpectAllIsFree();
}

TEST_F(ExportTest, AFailedExportEndsAShareOnlyIfNothingWasSentUnderIt) {
  Start();
  const GrantedLease lease = LeaseOffline();
  steps_.FailNext();
  EXPECT_EQ(ReasonOf(Fetch(session_, lease.id).status()), Reason::kBackend);
  EXPECT_EQ(Shares(), 0U);
  ASSERT_TRUE(Fetch(session_, lease.id).ok());
  steps_.FailNext();
  EXPECT_EQ(ReasonOf(Fetch(session_, lease.id).status()), Reason::kBackend);
  EXPECT_EQ(Shares(), 1U);
}

TEST_F(ExportTest, AFailedExportLeavesTheShareToAnotherThatIsUnderWay) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId other = BeginAndAwait(lease.id);
  steps_.FailNext();
  EXPECT_EQ(ReasonOf(Fetch(session_, lease.id).status()), Reason::kBackend);
  EXPECT_EQ(Shares(), 1U);
  EXPECT_TRUE(store_->EndExport(other, /*sent=*/false));
  EXPECT_EQ(Shares(), 0U);
}

TEST_F(ExportTest, WhoGaveAShareBackMeanwhileGetsNoFds) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId held = BeginHeld(lease.id);
  ASSERT_TRUE(store_->Unmapped(session_, ShareSerial(1)));
  steps_.gate().Hold(false);
  EXPECT_EQ(ReasonOf(events_.AwaitExported(held).status()), Reason::kCancelled);
  EXPECT_EQ(Shares(), 0U);

  const ExportId done = BeginAndAwait(lease.id);
  ASSERT_TRUE(store_->Unmapped(session_, ShareSerial(2)));
  EXPECT_EQ(ReasonOf(store_->CheckExport(done)), Reason::kCancelled);
  EXPECT_TRUE(store_->EndExport(done, /*sent=*/false));
  EXPECT_EQ(ReasonOf(store_->CheckExport(done)), Reason::kCancelled);
}

TEST_F(ExportTest, WhoseLeaseEndsMeanwhileGetsNoFdsAndKeepsNothing) {
  Start();
  GrantedLease lease = LeaseOffline();
  ExportId held = BeginHeld(lease.id);
  Pass(lease.ttl);
  EXPECT_EQ(store_->UseBy(session_).quarantined_shares, 1U);
  steps_.gate().Hold(false);
  EXPECT_EQ(ReasonOf(events_.AwaitExported(held).status()), Reason::kLeaseExpired);
  ExpectAllIsFree();

  lease = LeaseOffline();
  held = BeginHeld(lease.id);
  EXPECT_TRUE(store_->Release(session_, lease.id).ok());
  steps_.gate().Hold(false);
  EXPECT_EQ(ReasonOf(events_.AwaitExported(held).status()), Reason::kLeaseNotFound);
  ExpectAllIsFree();

  lease = LeaseOffline();
  const ExportId done = BeginAndAwait(lease.id);
  Pass(lease.ttl);
  EXPECT_EQ(ReasonOf(store_->CheckExport(done)), Reason::kLeaseExpired);
  EXPECT_TRUE(store_->EndExport(done, /*sent=*/false));
  ExpectAllIsFree();
}

TEST_F(ExportTest, ARegionStaysWhileItIsExportedWhoeverLetsGoOfIt) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId held = BeginHeld(lease.id);
  store_->EndSession(session_);
  EXPECT_EQ(Shares(), 0U);
  Pass(seconds(1));
  EXPECT_EQ(LedgerNow().retained, KiB(40));
  steps_.gate().Hold(false);
  EXPECT_EQ(ReasonOf(events_.AwaitExported(held).status()), Reason::kCancelled);
  ExpectAllIsFree();
}

// Its fds have nowhere to go, whether the Session's end or the end of the export comes first.
TEST_F(ExportTest, ASessionThatEndsBeforeItsBatchWasSentLeavesNothing) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId done = BeginAndAwait(lease.id);
  store_->EndSession(session_);
  ExpectAllIsFree();
  EXPECT_EQ(ReasonOf(store_->CheckExport(done)), Reason::kCancelled);
  EXPECT_TRUE(store_->EndExport(done, /*sent=*/false));
  ExpectAllIsFree();
}

TEST_F(ExportTest, WhatNobodyWaitsForAnyMoreEndsAtOnceAndIsNotTold) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId running = BeginHeld(lease.id);
  const ExportId waiting = Begin(lease.id);
  EXPECT_TRUE(store_->EndExport(waiting, /*sent=*/false));
  EXPECT_EQ(Shares(), 1U);
  EXPECT_TRUE(store_->EndExport(running, /*sent=*/false));
  EXPECT_FALSE(store_->EndExport(running, /*sent=*/false));
  EXPECT_EQ(Shares(), 0U);
  store_->devices()[0]->Validate();
  steps_.gate().Hold(false);
  AwaitTheThread(lease.id);
  EXPECT_FALSE(events_.HasExported(running));
  EXPECT_FALSE(events_.HasExported(waiting));
  EXPECT_EQ(Backend().exports, 2U);  // what waited was not begun
  EXPECT_TRUE(store_->Release(session_, lease.id).ok());
  ExpectAllIsFree();
}

TEST_F(ExportTest, WhoeverWaitsForALostDeviceHearsOfItWhileItStillHangs) {
  Start();
  const GrantedLease lease = LeaseOffline();
  const ExportId done = BeginAndAwait(lease.id);
  const ExportId running = BeginHeld(lease.id);
  const ExportId waiting = Begin(lease.id);
  hardware_[0]->Lose();
  store_->Tick();
  EXPECT_EQ(ReasonOf(events_.AwaitExported(running).status()), Reason::kDeviceLost);
  EXPECT_EQ(ReasonOf(events_.AwaitExported(waiting).status()), Reason::kDeviceLost);
  EXPECT_EQ(ReasonOf(store_->CheckExport(done)), Reason::kDeviceLost);
  EXPECT_EQ(ReasonOf(store_->BeginExport(session_, lease.id, 0, 1).status()), Reason::kDeviceLost);
  EXPECT_FALSE(store_->EndExport(running, /*sent=*/false));
  EXPECT_TRUE(store_->EndExport(done, /*sent=*/false));
  EXPECT_EQ(Shares(), 0U);
  store_->devices()[0]->Validate();
  // The driver answers after all: nothing comes of it.
  steps_.gate().Hold(false);
  store_.reset();
  EXPECT_FALSE(events_.HasExported(running));
}

}  // namespace
}  // namespace tenure
