#include <atomic>
#include <thread>

#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LifetimeTest : public StoreTest {
 protected:
  // Loads "a", leases it, and has its Region mapped.
  GrantedLease LeaseMapped(SessionId session) {
    const StatusOr<GrantedLease> lease = store_->Acquire(session, "a", "", {}, "");
    EXPECT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(Fetch(session, lease->id).ok());
    return *lease;
  }
};

// Field cases 7 and 15.
TEST_F(LifetimeTest, UnloadWithALiveLeaseDrainsAndSaysWhoHoldsIt) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  const StatusOr<LoadResult> a = LoadLeased("a", "a");
  ASSERT_TRUE(a.ok());
  const StatusOr<UnloadResult> unloaded = Unload("a");
  ASSERT_TRUE(unloaded.ok());
  EXPECT_EQ(unloaded->state, RegionState::kDraining);
  EXPECT_EQ(unloaded->freed, Bytes(0));
  EXPECT_EQ(unloaded->retained, Bytes(0));
  EXPECT_EQ(unloaded->deferred, KiB(20));
  ASSERT_EQ(unloaded->holders.size(), 1U);
  EXPECT_EQ(unloaded->holders[0].program, "tester");
  EXPECT_EQ(unloaded->holders[0].leases, 1U);

  EXPECT_TRUE(
      HasReason(store_->Acquire(session_, "a", "", {}, "").status(), Reason::kModelDraining));
  EXPECT_EQ(Unload("a")->state, RegionState::kDraining);  // changes nothing
  EXPECT_EQ(store_->Models().size(), 1U);

  ASSERT_TRUE(store_->Release(session_, a->lease->id).ok());
  EXPECT_EQ(store_->GetModel("a", {}, "")->state, RegionState::kRetained);
  EXPECT_EQ(Unload("a")->retained, KiB(20));
  Pass(seconds(61));
  EXPECT_TRUE(store_->Models().empty());
  EXPECT_TRUE(HasReason(Unload("a").status(), Reason::kModelNotFound));
  EXPECT_EQ(LedgerNow().free(), LedgerNow().capacity);
}

// Field case 12.
TEST_F(LifetimeTest, TheTtlCountsFromTheLastRelease) {
  DeviceStoreOptions options = DefaultOptions();
  options.retain_ttl = seconds(1);
  Start(options);
  WriteModel("a", {KiB(20)}, 1);
  const StatusOr<LoadResult> a = LoadLeased("a", "a");
  ASSERT_TRUE(Unload("a").ok());
  Pass(seconds(3));
  ASSERT_TRUE(store_->Release(session_, a->lease->id).ok());
  Pass(milliseconds(900));
  EXPECT_EQ(Load("a", "a")->reuse, Reuse::kRevived);  // cancels the timer
  Pass(seconds(5));
  EXPECT_EQ(store_->GetModel("a", {}, "")->state, RegionState::kActive);
  ASSERT_TRUE(Unload("a").ok());
  Pass(milliseconds(1100));
  EXPECT_TRUE(HasReason(store_->GetModel("a", {}, "").status(), Reason::kModelNotFound));
}

// Field case 12.
TEST_F(LifetimeTest, ALoadInTheTickOfExpiryGetsAValidLease) {
#ifdef TENURE_SANITIZED
  constexpr int kTries = 5'000;
#else
  constexpr int kTries = 100'000;
#endif
  DeviceStoreOptions options = DefaultOptions();
  options.retain_ttl = seconds(1);
  Start(options);
  WriteModel("a", {KiB(20)}, 1);
  std::atomic<int> due = 0;
  std::atomic<int> ticked = 0;
  std::thread ticker([&] {
    for (int i = 1; i <= kTries; ++i) {
      while (due < i) std::this_thread::yield();
      store_->Tick();
      ticked = i;
    }
  });
  EXPECT_TRUE(Load("a", "a").ok());
  int revived = 0;
  for (int i = 1; i <= kTries && !HasFailure(); ++i) {
    EXPECT_TRUE(Unload("a").ok());
    clock_.Advance(seconds(1));
    due = i;
    const auto await_tick = [&] {
      while (ticked < i) std::this_thread::yield();
    };
    // On a busy machine the ticker would never come first.
    if (i % 16 == 0) await_tick();
    const StatusOr<LoadResult> a = LoadLeased("a", "a");
    await_tick();
    EXPECT_TRUE(a.ok()) << a.status();
    if (!a.ok()) break;
    revived += a->reuse == Reuse::kRevived ? 1 : 0;
    const DeviceStore::Renewal renewal = store_->Renew(session_, a->lease->id);
    EXPECT_TRUE(renewal.lease.ok()) << renewal.lease.status();
    EXPECT_EQ(renewal.generation, a->lease->generation);
    EXPECT_EQ(store_->GetModel("a", {}, "")->region, a->lease->region);
    EXPECT_TRUE(store_->Release(session_, a->lease->id).ok());
  }
  due = kTries;
  ticker.join();
  store_->devices()[0]->Validate();
  EXPECT_GT(revived, 0);
  EXPECT_LT(revived, kTries);
}

// Field case 12.
TEST_F(LifetimeTest, ATtlOfZeroReclaimsAtOnceAndNeverDoesNot) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  WriteModel("b", {KiB(24)}, 2);
  LoadRequest at_once = RequestFor("a", "a");
  at_once.retain_ttl = Duration::zero();
  ASSERT_TRUE(store_->Load(at_once, {}).ok());
  const StatusOr<UnloadResult> unloaded = Unload("a");
  EXPECT_EQ(unloaded->state, RegionState::kFreed);
  EXPECT_EQ(unloaded->freed, KiB(20));

  LoadRequest never = RequestFor("b", "b");
  never.retain_ttl = kForever;
  ASSERT_TRUE(store_->Load(never, {}).ok());
  ASSERT_TRUE(Unload("b").ok());
  Pass(std::chrono::hours(10'000));
  EXPECT_EQ(Load("b", "b")->reuse, Reuse::kRevived);
}

TEST_F(LifetimeTest, ALeaseLivesForItsTtlAndEveryRenewalStartsItAgain) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  LoadRequest request = RequestFor("a", "a");
  request.acquire = true;
  request.lease_ttl = seconds(10);
  const LeaseId lease = store_->Load(request, {})->lease->id;
  Pass(milliseconds(9'999));
  store_->RenewSession(session_);
  Pass(milliseconds(9'999));
  EXPECT_EQ(LedgerNow().leased, KiB(20));
  EXPECT_TRUE(events_.TakeLost().empty());
  Pass(milliseconds(1));
  EXPECT_EQ(LedgerNow().leased, Bytes(0));
  const auto expired = events_.TakeLost();
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].lease, lease);
}

// Field case 49, as far as the store is concerned.
TEST_F(LifetimeTest, AnExpiredLeaseWithAMappingQuarantinesTheRegionUntilItIsAnsweredFor) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  WriteModel("b", {KiB(20)}, 2);
  ASSERT_TRUE(Load("a", "a").ok());
  const GrantedLease lease = LeaseMapped(session_);
  Pass(seconds(31));
  EXPECT_EQ(LedgerNow().quarantined, KiB(20));
  EXPECT_TRUE(HasReason(store_->Renew(session_, lease.id).lease.status(), Reason::kLeaseExpired));

  ASSERT_TRUE(Unload("a").ok());
  Pass(seconds(1000));
  EXPECT_EQ(LedgerNow().quarantined, KiB(20));
  EXPECT_EQ(Load("b", "b")->reuse, Reuse::kFresh);  // not adopted

  // Late, but the holder's word all the same.
  EXPECT_TRUE(HasReason(store_->Release(session_, lease.id), Reason::kLeaseExpired));
  EXPECT_EQ(LedgerNow().quarantined, Bytes(0));
  EXPECT_EQ(LedgerNow().retained, KiB(20));
}

TEST_F(LifetimeTest, AQuarantinedRegionCanBeRevivedAndItsHolderGetsANewLease) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  LeaseMapped(session_);
  Pass(seconds(31));
  ASSERT_TRUE(Unload("a").ok());
  const StatusOr<LoadResult> back = LoadLeased("a", "a");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->reuse, Reuse::kRevived);
  EXPECT_EQ(LedgerNow().leased, KiB(20));
}

// Promise 2: a closed connection is no proof of death.
TEST_F(LifetimeTest, AClosedSessionKeepsItsMemoryInQuarantineUntilItsProcessHasEnded) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  WriteModel("b", {KiB(20)}, 2);
  ASSERT_TRUE(Load("a", "a").ok());
  const SessionId other = OpenSession("other");
  LeaseMapped(other);
  store_->CloseSession(other);
  EXPECT_EQ(LedgerNow().quarantined, KiB(20));
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_EQ(Unload("a")->holders.at(0).quarantined, true);
  EXPECT_EQ(Load("b", "b")->reuse, Reuse::kFresh);
  EXPECT_TRUE(HasReason(store_->Acquire(other, "b", "", {}, "").status(), Reason::kSessionUnknown));
  store_->EndSession(other);
  EXPECT_EQ(LedgerNow().quarantined, Bytes(0));
  EXPECT_EQ(LedgerNow().retained, KiB(20));
}

TEST_F(LifetimeTest, ALeaseThatWasNeverMappedIsReleasedByExpiring) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(LoadLeased("a", "a").ok());
  Pass(seconds(31));
  EXPECT_EQ(LedgerNow().idle, KiB(20));
}

// Field case 16: another holder does not notice.
TEST_F(LifetimeTest, ADeadSessionsLeasesEndAndOthersGoOn) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  const SessionId other = OpenSession("other");
  LeaseMapped(other);
  const GrantedLease mine = LeaseMapped(session_);
  store_->EndSession(other);
  EXPECT_EQ(store_->GetModel("a", {}, "")->holders.size(), 1U);
  EXPECT_TRUE(store_->Renew(session_, mine.id).lease.ok());
}

TEST_F(LifetimeTest, LeasesThatExpireTogetherEndAModelThatIsNotToBeRetained) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  LoadRequest request = RequestFor("a", "a");
  request.acquire = true;
  request.retain_ttl = Duration::zero();
  ASSERT_TRUE(store_->Load(request, {}).ok());
  ASSERT_TRUE(store_->Acquire(session_, "a", "", {}, "").ok());
  EXPECT_EQ(Unload("a")->state, RegionState::kDraining);
  Pass(seconds(31));
  EXPECT_EQ(events_.TakeLost().size(), 2U);
  EXPECT_TRUE(store_->Models().empty());
}

TEST_F(LifetimeTest, UnusedSegmentsGoBackToTheBackendAfterTheirTtl) {
  DeviceStoreOptions options = DefaultOptions();
  options.cache_ttl = seconds(5);
  Start(options);
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  ASSERT_TRUE(Unload("a").ok());
  Pass(seconds(61));
  EXPECT_EQ(LedgerNow().cached, KiB(20));
  Pass(seconds(5));
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_EQ(LedgerNow().cached, Bytes(0));
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
  EXPECT_EQ(Backend().bytes_destroyed, KiB(20));
}

TEST_F(LifetimeTest, AnotherSessionsLeaseCannotBeTouched) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  const LeaseId lease = LoadLeased("a", "a")->lease->id;
  const SessionId other = OpenSession("other");
  EXPECT_TRUE(HasReason(store_->Release(other, lease), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(store_->Renew(other, lease).lease.status(), Reason::kLeaseNotFound));
  EXPECT_TRUE(HasReason(Fetch(other, lease).status(), Reason::kLeaseNotFound));
  EXPECT_FALSE(store_->Unmapped(other, ShareSerial(1)));
}

// A repeated call is the same call.
TEST_F(LifetimeTest, ARepeatedRequestGetsTheSameLeaseWhileItLives) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  const auto acquire = [&](const std::string& id) {
    return store_->Acquire(session_, "a", "", {}, id);
  };
  const LeaseId lease = acquire("r1")->id;
  EXPECT_EQ(acquire("r1")->id, lease);
  EXPECT_TRUE(
      HasReason(store_->Acquire(session_, "b", "", {}, "r1").status(), Reason::kRequestIdReused));
  const SessionId other = OpenSession("other");
  EXPECT_NE(store_->Acquire(other, "a", "", {}, "r1")->id, lease);
  ASSERT_TRUE(store_->Release(session_, lease).ok());
  EXPECT_NE(acquire("r1")->id, lease);

  ASSERT_TRUE(acquire("r2").ok());
  ASSERT_TRUE(store_->ReleaseAcquireRequest(session_, "r2").ok());
  EXPECT_TRUE(HasReason(acquire("r2").status(), Reason::kCancelled));
  EXPECT_TRUE(store_->ReleaseAcquireRequest(session_, "never-came").ok());
  EXPECT_TRUE(HasReason(acquire("never-came").status(), Reason::kCancelled));
}

}  // namespace
}  // namespace tenure
