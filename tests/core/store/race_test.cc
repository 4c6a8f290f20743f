#include <barrier>
#include <future>
#include <thread>

#include "tests/core/store/model_content.h"
#include "tests/core/store/store_fixture.h"

// Two calls at the same moment, many times over: whichever comes first, the outcome is one that
// some order of them has. Field cases 12, 14 and 15.

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

#ifdef TENURE_SANITIZED
constexpr int kTries = 100;
#else
constexpr int kTries = 1000;
#endif

// Runs `one` and `other` on two threads that start together.
template <typename One, typename Other>
void AtOnce(One one, Other other) {
  std::barrier start(2);
  std::thread thread([&] {
    start.arrive_and_wait();
    other();
  });
  start.arrive_and_wait();
  one();
  thread.join();
}

class RaceTest : public StoreTest {
 protected:
  static constexpr Duration kTtl = seconds(1);

  RaceTest() {
    WriteModel("a", {KiB(20)}, 1);
    WriteModel("b", {KiB(50)}, 2);
  }

  StatusOr<GrantedLease> Acquire(SessionId session) {
    return store_->Acquire(session, "a", "", kTtl, "");
  }

  // The lease lives, on a Region that is there and holds "a".
  void ExpectReadable(SessionId session, const GrantedLease& lease) {
    const DeviceStore::Renewal renewal = store_->Renew(session, lease.id);
    ASSERT_TRUE(renewal.lease.ok()) << renewal.lease.status();
    EXPECT_EQ(renewal.generation, lease.generation);
    EXPECT_EQ(store_->GetModel("a", {}, "")->region, lease.region);
    const StatusOr<ShareExport> batch = Fetch(session, lease.id);
    ASSERT_TRUE(batch.ok()) << batch.status();
    EXPECT_TRUE(content_.IsIn(MappedShare(*batch)));
    EXPECT_TRUE(store_->Unmapped(session, batch->share.serial));
  }

  void Validate() { store_->devices()[0]->Validate(); }
  DeviceStore::Snapshot Snapshot() const { return store_->devices()[0]->TakeSnapshot(); }

  const ModelContent content_{SpecsOf({KiB(20)}), 1};
};

// The due lease is renewed or expires; not both, and it never comes back.
TEST_F(RaceTest, RenewalInTheTickOfExpiryKeepsTheLeaseOrComesTooLate) {
  Start();
  ASSERT_TRUE(Load("a", "a").ok());
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    const GrantedLease lease = *Acquire(session_);
    if (i % 2 == 1) (void)Fetch(session_, lease.id);
    clock_.Advance(kTtl);
    bool renewed = false;
    AtOnce([&] { store_->Tick(); },
           [&] { renewed = store_->Renew(session_, lease.id).lease.ok(); });
    EXPECT_EQ(events_.TakeLost().size(), renewed ? 0U : 1U);
    EXPECT_EQ(store_->Renew(session_, lease.id).lease.ok(), renewed);
    EXPECT_EQ(Snapshot().live_leases, renewed ? 1U : 0U);
    if (renewed) ExpectReadable(session_, lease);
    (void)store_->Release(session_, lease.id);
    Validate();
  }
}

// With the last lease the memory is to go at once, and the same content is wanted again.
TEST_F(RaceTest, AnAcquireInTheTickOfExpiryNeverGetsAReclaimedRegion) {
  Start();
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    LoadRequest request = RequestFor("a", "a");
    request.acquire = true;
    request.retain_ttl = Duration::zero();
    request.lease_ttl = kTtl;
    ASSERT_TRUE(store_->Load(request, {}).ok());
    ASSERT_TRUE(Unload("a").ok());
    clock_.Advance(kTtl);
    StatusOr<LoadResult> loaded;
    AtOnce([&] { store_->Tick(); }, [&] { loaded = store_->Load(request, {}); });
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ExpectReadable(session_, *loaded->lease);
    ASSERT_TRUE(store_->Release(session_, loaded->lease->id).ok());
    ASSERT_TRUE(Unload("a").ok());
    Validate();
  }
}

// The holder answers a recall while the content is wanted again: one of the two loads gets it.
TEST_F(RaceTest, AnAcquireDuringARecallGetsTheRegionWholeOrNotAtAll) {
  DeviceStoreOptions options = DefaultOptions();
  options.weights_capacity = KiB(64);
  Start(options);
  for (int i = 0; i < kTries / 10 && !HasFailure(); ++i) {
    const StatusOr<LoadResult> first = LoadLeased("a", "a");
    ASSERT_TRUE(first.ok()) << first.status();
    const ShareSerial share = Fetch(session_, first->lease->id)->share.serial;
    ASSERT_TRUE(store_->Release(session_, first->lease->id).ok());
    ASSERT_TRUE(Unload("a").ok());
    auto large = std::async(std::launch::async, [this] { return Load("b", "b"); });
    events_.AwaitRecalls();
    const SessionId other = OpenSession("other");
    LoadRequest request = RequestFor("a", "a");
    request.session = other;
    request.acquire = true;
    StatusOr<LoadResult> back;
    AtOnce([&] { (void)store_->Unmapped(session_, share); },
           [&] { back = store_->Load(request, {}); });
    const bool room_was_taken = large.get().ok();
    EXPECT_NE(back.ok(), room_was_taken);
    if (back.ok()) ExpectReadable(other, *back->lease);
    store_->EndSession(other);
    Validate();
    (void)Unload("a");
    (void)Unload("b");
    Pass(seconds(61));
    EXPECT_EQ(LedgerNow().free(), KiB(64));
  }
}

TEST_F(RaceTest, ASessionThatEndsKeepsNoLeaseThatIsGrantedMeanwhile) {
  Start();
  ASSERT_TRUE(Load("a", "a").ok());
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    const SessionId ending = OpenSession("ending");
    AtOnce([&] { (void)Acquire(ending); }, [&] { store_->EndSession(ending); });
    EXPECT_EQ(Snapshot().live_leases, 0U);
    EXPECT_TRUE(HasReason(Acquire(ending).status(), Reason::kSessionUnknown));
    Validate();
  }
}

// Field case 15. The replies say who was admitted first, and the end is as they say.
TEST_F(RaceTest, UnloadAndLoadAtOnceEndAsTheyWereAdmitted) {
  Start();
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    ASSERT_TRUE(Load("a", "a").ok());
    StatusOr<LoadResult> loaded;
    AtOnce([&] { EXPECT_TRUE(Unload("a").ok()); }, [&] { loaded = Load("a", "a"); });
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    EXPECT_EQ(store_->GetModel("a", {}, "")->state,
              loaded->reuse == Reuse::kRevived ? RegionState::kActive : RegionState::kRetained);
    EXPECT_LE(LedgerNow().allocated(), LedgerNow().capacity);
    Validate();
  }
}

// The same for a model that is not there yet: an unload that finds the load ends it.
TEST_F(RaceTest, UnloadDuringTheFirstLoadEndsItOrComesTooEarlyOrUnloadsTheModel) {
  Start();
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    LoadRequest request = RequestFor("a", "a");
    request.retain_ttl = Duration::zero();
    StatusOr<LoadResult> loaded;
    StatusOr<UnloadResult> unloaded;
    std::atomic<bool> ended = false;
    AtOnce(
        [&] {
          loaded = store_->Load(request, {});
          ended = true;
        },
        [&] {
          while (i % 2 == 1 && !ended && !store_->ProgressOf("a", "").has_value()) {
            std::this_thread::yield();
          }
          unloaded = Unload("a");
        });
    const bool online = loaded.ok() && !unloaded.ok();
    EXPECT_TRUE(loaded.ok() || HasReason(loaded.status(), Reason::kModelUnavailable));
    EXPECT_TRUE(unloaded.ok() || HasReason(unloaded.status(), Reason::kModelNotFound));
    EXPECT_TRUE(loaded.ok() || unloaded.ok());
    EXPECT_EQ(store_->Models().size(), online ? 1U : 0U);
    Validate();
    (void)Unload("a");
    EXPECT_EQ(LedgerNow().allocated(), Bytes(0));
  }
}

TEST_F(RaceTest, EqualLoadsAtOnceReadOnce) {
  Start();
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    LoadRequest request = RequestFor("a", "a");
    request.retain_ttl = Duration::zero();
    const uint64_t read = files_.payload_bytes();
    const auto load = [&] { EXPECT_TRUE(store_->Load(request, {}).ok()); };
    AtOnce(load, load);
    EXPECT_EQ(files_.payload_bytes(), read + KiB(20).count());
    EXPECT_EQ(store_->Models().size(), 1U);
    ASSERT_TRUE(Unload("a").ok());
  }
}

TEST_F(RaceTest, WhoJoinsALoadGetsItThoughTheFirstCallerLeaves) {
  Start();
  for (int i = 0; i < kTries / 20 && !HasFailure(); ++i) {
    files_.Hold("/a");
    std::atomic<bool> gone = false;
    CallLimits limits;
    limits.cancelled = [&] { return gone.load(); };
    auto first = std::async(std::launch::async,
                            [&] { return store_->Load(RequestFor("a", "a"), limits).status(); });
    files_.AwaitHeldRead();
    std::future<StatusOr<LoadResult>> second;
    AtOnce(
        [&] { gone = true; },
        [&] { second = std::async(std::launch::async, [this] { return LoadLeased("a", "a"); }); });
    EXPECT_TRUE(HasReason(first.get(), Reason::kCancelled));
    files_.Release();
    const StatusOr<LoadResult> joined = second.get();
    ASSERT_TRUE(joined.ok()) << joined.status();
    ExpectReadable(session_, *joined->lease);
    store_->devices()[0]->WaitUntilQuiet();
    ASSERT_TRUE(store_->Release(session_, joined->lease->id).ok());
    ASSERT_TRUE(Unload("a").ok());
    Pass(seconds(61));
    Validate();
  }
}

// Field case 15: as if it had been called once.
TEST_F(RaceTest, ADoubleUnloadIsOne) {
  Start();
  for (int i = 0; i < kTries && !HasFailure(); ++i) {
    const StatusOr<LoadResult> loaded = LoadLeased("a", "a");
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    const auto unload_twice = [&](RegionState state) {
      const auto unload = [&] {
        const StatusOr<UnloadResult> unloaded = Unload("a");
        EXPECT_TRUE(unloaded.ok() && unloaded->state == state);
      };
      AtOnce(unload, unload);
    };
    unload_twice(RegionState::kDraining);
    ASSERT_TRUE(store_->Release(session_, loaded->lease->id).ok());
    unload_twice(RegionState::kRetained);
    const StoreCounters before = Snapshot().counters;
    Pass(seconds(61));
    StoreCounters after = Snapshot().counters;
    EXPECT_EQ(after.reclaims[0], before.reclaims[0] + 1);
    EXPECT_EQ(after.leases_granted, after.leases_released);
    EXPECT_TRUE(store_->Models().empty());
    Validate();
  }
}

}  // namespace
}  // namespace tenure
