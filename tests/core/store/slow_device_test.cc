#include <future>
#include <thread>

#include "tests/core/store/store_fixture.h"

// Holds the backend in the middle of what it does. Field case 18: whoever needs the bytes waits
// until its deadline, and nobody else waits at all.

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class SlowDeviceTest : public StoreTest {
 protected:
  ~SlowDeviceTest() override {
    for (SmallDevice* device : hardware_) {
      device->HoldCreations(false);
      device->HoldExports(false);
      device->HoldDestructions(false);
    }
  }

  // A store of 64 KiB where "leased" is, and whose 40 KiB of "old" are on their way to the backend,
  // which does not come to an end with them.
  void StartWithBytesThatLeave() {
    DeviceStoreOptions options = DefaultOptions();
    options.weights_capacity = KiB(64);
    options.cache_ttl = Duration::zero();
    Start(options, 2);
    WriteModel("leased", {KiB(8)}, 1);
    WriteModel("old", {KiB(40)}, 1);
    WriteModel("small", {KiB(12)}, 1);
    WriteModel("large", {KiB(39)}, 1);
    ASSERT_TRUE(Here("leased").get().ok());
    ASSERT_TRUE(Here("old").get().ok());
    ASSERT_TRUE(Unload("old").ok());
    hardware_[0]->HoldDestructions(true);
    Pass(seconds(61));
    Pass(milliseconds(1));
    ASSERT_TRUE(hardware_[0]->AwaitHeldDestruction());
  }

  std::future<StatusOr<LoadResult>> Here(const std::string& name, CallLimits limits = {}) {
    LoadRequest request = RequestFor(name, name);
    request.device = "host:0";
    return std::async(std::launch::async,
                      [this, request, limits] { return store_->Load(request, limits); });
  }

  void ExpectOthersGoOn() {
    store_->Tick();
    store_->devices()[0]->Validate();
    EXPECT_FALSE(store_->Models().empty());
    const StatusOr<GrantedLease> lease = store_->Acquire(session_, "leased", "", {}, "");
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(Fetch(session_, lease->id).ok());
    EXPECT_TRUE(store_->Release(session_, lease->id).ok());
    ExpectOthersGoOnWithoutFds();
  }
  void ExpectOthersGoOnWithoutFds() {
    store_->RenewSession(session_);
    const StatusOr<GrantedLease> lease = store_->Acquire(session_, "leased", "host:0", {}, "");
    ASSERT_TRUE(lease.ok()) << lease.status();
    EXPECT_TRUE(store_->Renew(session_, lease->id).lease.ok());
    EXPECT_TRUE(store_->Release(session_, lease->id).ok());
    LoadRequest elsewhere = RequestFor("elsewhere", "leased");
    elsewhere.device = "host:1";
    EXPECT_TRUE(store_->Load(elsewhere, {}).ok());
  }

  // Until the store has as many loads in hand, or the last of them has ended.
  void AwaitLoads(uint64_t count, const std::future<StatusOr<LoadResult>>& last) const {
    const auto running = [&] { return store_->devices()[0]->TakeSnapshot().running_loads; };
    while (running() < count && last.wait_for(seconds(0)) != std::future_status::ready) {
      std::this_thread::yield();
    }
  }
};

TEST_F(SlowDeviceTest, WhileTheBackendFreesSlowlyOthersGoOnAndWhoNeedsTheBytesWaits) {
  StartWithBytesThatLeave();
  CallLimits limits;
  limits.deadline = clock_.Now() + seconds(1);
  auto hasty = Here("large", limits);
  AwaitLoads(1, hasty);
  ExpectOthersGoOn();
  ASSERT_TRUE(Here("small").get().ok());  // there is room for it
  ASSERT_TRUE(Unload("small").ok());
  clock_.Advance(seconds(1));
  EXPECT_TRUE(HasReason(hasty.get().status(), Reason::kReclaimPending));
  auto patient = Here("large");
  AwaitLoads(1, patient);
  ExpectOthersGoOn();
  hardware_[0]->HoldDestructions(false);
  const StatusOr<LoadResult> loaded = patient.get();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const BackendCounters backend = Backend();
  EXPECT_LE(backend.bytes_created - backend.bytes_destroyed, KiB(64));
}

TEST_F(SlowDeviceTest, ADeadClientsMemoryDelaysNobodyWhileTheBackendFreesIt) {
  StartWithBytesThatLeave();
  const SessionId other = OpenSession("other");
  const StatusOr<GrantedLease> lease = store_->Acquire(other, "leased", "", {}, "");
  ASSERT_TRUE(Fetch(other, lease->id).ok());
  store_->EndSession(other);
  EXPECT_TRUE(store_->GetModel("leased", {}, "")->holders.empty());
  ExpectOthersGoOn();
}

TEST_F(SlowDeviceTest, WhileTheBackendExportsSlowlyOnlyWhoWantsItsFdsWaits) {
  Start(DefaultOptions(), 2);
  WriteModel("leased", {KiB(8)}, 1);
  ASSERT_TRUE(Here("leased").get().ok());
  const SessionId slow = OpenSession("slow");
  const StatusOr<GrantedLease> lease = store_->Acquire(slow, "leased", "", {}, "");
  hardware_[0]->HoldExports(true);
  const StatusOr<ExportId> held = store_->BeginExport(slow, lease->id, 0, 64);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(hardware_[0]->AwaitHeldExport());
  store_->Tick();
  store_->devices()[0]->Validate();
  ExpectOthersGoOnWithoutFds();
  const StatusOr<GrantedLease> other = store_->Acquire(session_, "elsewhere", "host:1", {}, "");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_TRUE(Fetch(session_, other->id).ok());
  EXPECT_FALSE(events_.HasExported(*held));
  hardware_[0]->HoldExports(false);
  EXPECT_TRUE(events_.AwaitExported(*held).ok());
}

// Segments that fit nothing make way for a load; its own worker destroys them. What it does not
// need of them is free for others once they are destroyed.
TEST_F(SlowDeviceTest, ALoadThatEvictsDelaysNobodyButWhoNeedsWhatItEvicted) {
  DeviceStoreOptions options = DefaultOptions();
  options.weights_capacity = KiB(64);
  Start(options, 2);
  WriteModel("leased", {KiB(8)}, 1);
  WriteModel("odd", {KiB(12)}, 1);
  WriteModel("large", {KiB(48)}, 1);
  WriteModel("one", {KiB(4)}, 1);
  WriteModel("two", {KiB(4)}, 2);
  ASSERT_TRUE(Here("leased").get().ok());
  ASSERT_TRUE(Here("odd").get().ok());
  ASSERT_TRUE(Unload("odd").ok());
  Pass(seconds(61));
  hardware_[0]->HoldDestructions(true);
  auto large = Here("large");  // 8 of the 12 KiB must go, and leave it 4 too many
  ASSERT_TRUE(hardware_[0]->AwaitHeldDestruction());
  ExpectOthersGoOn();
  EXPECT_EQ(Here("one").get()->reuse, Reuse::kRecycled);  // what is left in the cache
  CallLimits limits;
  limits.deadline = clock_.Now() + seconds(1);
  auto two = Here("two", limits);
  AwaitLoads(2, two);
  clock_.Advance(seconds(1));
  EXPECT_TRUE(HasReason(two.get().status(), Reason::kReclaimPending));
  hardware_[0]->HoldDestructions(false);
  EXPECT_TRUE(large.get().ok());
  EXPECT_TRUE(Here("two").get().ok());
}

TEST_F(SlowDeviceTest, WhileTheBackendCreatesSlowlyOthersGoOnAndTheCallEndsByItsDeadline) {
  Start(DefaultOptions(), 2);
  WriteModel("leased", {KiB(8)}, 1);
  WriteModel("new", {KiB(40)}, 1);
  ASSERT_TRUE(Here("leased").get().ok());
  hardware_[0]->HoldCreations(true);
  CallLimits limits;
  limits.deadline = clock_.Now() + seconds(1);
  auto loading = Here("new", limits);
  ASSERT_TRUE(hardware_[0]->AwaitHeldCreation());
  ExpectOthersGoOn();
  EXPECT_EQ(LedgerNow().loading, KiB(40));
  clock_.Advance(seconds(1));
  EXPECT_TRUE(HasReason(loading.get().status(), Reason::kDeadline));
  hardware_[0]->HoldCreations(false);
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_EQ(LedgerNow().loading, Bytes(0));
  EXPECT_TRUE(Here("new").get().ok());
}

// Not refused: what an abandoned load has comes back without anybody's doing.
TEST_F(SlowDeviceTest, ALoadWaitsForTheBytesOfOneThatWasAbandoned) {
  DeviceStoreOptions options = DefaultOptions();
  options.weights_capacity = KiB(64);
  Start(options);
  WriteModel("given-up", {KiB(40)}, 1);
  WriteModel("new", {KiB(50)}, 1);
  hardware_[0]->HoldCreations(true);
  auto given_up = Here("given-up");
  ASSERT_TRUE(hardware_[0]->AwaitHeldCreation());
  EXPECT_TRUE(HasReason(Here("new").get().status(), Reason::kCapacity));  // it may yet succeed
  ASSERT_TRUE(Unload("given-up").ok());
  CallLimits limits;
  limits.deadline = clock_.Now() + seconds(1);
  auto hasty = Here("new", limits);
  AwaitLoads(2, hasty);
  clock_.Advance(seconds(1));
  EXPECT_TRUE(HasReason(hasty.get().status(), Reason::kReclaimPending));
  auto patient = Here("new");
  AwaitLoads(2, patient);
  hardware_[0]->HoldCreations(false);
  EXPECT_TRUE(HasReason(given_up.get().status(), Reason::kModelUnavailable));
  const StatusOr<LoadResult> loaded = patient.get();
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

// What a failed load created is given back before the caller learns of the failure.
TEST_F(SlowDeviceTest, AFailedLoadIsAnsweredOnceItsMemoryIsGone) {
  Start();
  WriteModel("new", {KiB(40)}, 1);
  files_.FailRead(1);
  hardware_[0]->HoldDestructions(true);
  auto failed = Here("new");
  ASSERT_TRUE(hardware_[0]->AwaitHeldDestruction());
  EXPECT_EQ(LedgerNow().loading, Bytes(0));
  EXPECT_EQ(LedgerNow().free(), LedgerNow().capacity);
  EXPECT_EQ(LedgerNow().reserved, KiB(40));
  hardware_[0]->HoldDestructions(false);
  EXPECT_TRUE(HasReason(failed.get().status(), Reason::kFileUnreadable));
  EXPECT_EQ(Backend().segments_destroyed, Backend().segments_created);
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
}

}  // namespace
}  // namespace tenure
