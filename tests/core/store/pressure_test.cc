#include <future>

#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PressureTest : public StoreTest {
 protected:
  static DeviceStoreOptions RoomFor(Bytes capacity) {
    DeviceStoreOptions options = DefaultOptions();
    options.weights_capacity = capacity;
    options.retain_ttl = std::chrono::hours(1);
    return options;
  }

  // Loads a model of its own architecture, takes it offline, and lets a second pass.
  void Retain(const std::string& name, Bytes size) {
    WriteModel(name, {size}, 1);
    const StatusOr<LoadResult> loaded = Load(name, name);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    ASSERT_TRUE(Unload(name).ok());
    Pass(seconds(1));
  }

  // As Retain, but `session` still has the Region mapped.
  ShareSerial RetainMapped(const std::string& name, Bytes size, SessionId session) {
    WriteModel(name, {size}, 1);
    EXPECT_TRUE(Load(name, name).ok());
    const GrantedLease lease = *store_->Acquire(session, name, "", {}, "");
    const ShareSerial share = Fetch(session, lease.id)->share.serial;
    EXPECT_TRUE(store_->Release(session, lease.id).ok());
    EXPECT_TRUE(Unload(name).ok());
    Pass(seconds(1));
    return share;
  }

  std::future<StatusOr<LoadResult>> LoadAsync(const std::string& name, Bytes size) {
    WriteModel(name, {size}, 1);
    return std::async(std::launch::async, [this, name] { return Load(name, name); });
  }
};

// Field case 8.
TEST_F(PressureTest, NoMoreIsReclaimedThanIsNeededAndTheVictimsAreNamed) {
  Start(RoomFor(KiB(32 * 4)));
  for (uint64_t i = 0; i < 8; ++i) Retain("r" + std::to_string(i), Bytes(16'000 + i));
  EXPECT_EQ(LedgerNow().free(), Bytes(0));

  WriteModel("one", {KiB(15)}, 1);
  const StatusOr<LoadResult> one = Load("one", "one");
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_EQ(one->reuse, Reuse::kRecycled);
  EXPECT_EQ(one->reclaimed, std::vector<std::string>{"r0@1"});

  WriteModel("three", {KiB(48)}, 1);
  const StatusOr<LoadResult> three = Load("three", "three");
  ASSERT_TRUE(three.ok()) << three.status();
  EXPECT_EQ(three->reclaimed, (std::vector<std::string>{"r1@1", "r2@1", "r3@1"}));
  EXPECT_EQ(store_->Models().size(), 4U + 2U);
}

TEST_F(PressureTest, ALeasedAnIdleAndAPinnedModelAreNeverReclaimed) {
  DeviceStoreOptions options = RoomFor(KiB(64));
  options.idle_unload_after = seconds(30);
  Start(options);
  WriteModel("leased", {KiB(16)}, 1);
  WriteModel("pinned", {KiB(20)}, 1);
  WriteModel("idle", {KiB(24)}, 1);
  WriteModel("big", {KiB(24)}, 2);
  LoadRequest leased = RequestFor("leased", "leased");
  leased.acquire = true;
  leased.lease_ttl = kForever;
  ASSERT_TRUE(store_->Load(leased, {}).ok());
  LoadRequest pinned = RequestFor("pinned", "pinned");
  pinned.pin = true;
  ASSERT_TRUE(store_->Load(pinned, {}).ok());
  ASSERT_TRUE(Load("idle", "idle").ok());

  const Status refused = Load("big", "big").status();
  EXPECT_TRUE(HasReason(refused, Reason::kHeldByLeases)) << refused;

  Pass(seconds(31));  // now "idle" has been idle long enough
  const StatusOr<LoadResult> big = Load("big", "big");
  ASSERT_TRUE(big.ok()) << big.status();
  EXPECT_EQ(store_->GetModel("pinned", {}, "")->state, RegionState::kActive);
  EXPECT_EQ(store_->GetModel("leased", {}, "")->state, RegionState::kActive);
}

// Promise 4.
TEST_F(PressureTest, ARefusalTellsTheNumbersTheHoldersAndWhatWouldHelp) {
  Start(RoomFor(KiB(64)));
  WriteModel("mine", {KiB(40)}, 1);
  WriteModel("idle", {KiB(12)}, 1);
  WriteModel("big", {KiB(32)}, 1);
  WriteModel("huge", {KiB(100)}, 1);
  ASSERT_TRUE(LoadLeased("mine", "mine").ok());
  ASSERT_TRUE(Load("idle", "idle").ok());

  const Status refused = Load("big", "big").status();
  ASSERT_TRUE(HasReason(refused, Reason::kHeldByLeases)) << refused;
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  const std::string message(refused.message());
  for (const char* part :
       {"32 KiB", "capacity 64 KiB", "free 12 KiB", "idle 12 KiB", "leased 40 KiB",
        "tester/0 on mine@1", "unloading would help: idle@1 (12 KiB)"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in: " << message;
  }
  const std::optional<ErrorDetail> detail = DetailOf(refused);
  const auto value = [&](const std::string& name) {
    for (const auto& [key, text] : detail->values) {
      if (key == name) return text;
    }
    return std::string("missing");
  };
  EXPECT_EQ(value("needed_bytes"), "32768");
  EXPECT_EQ(value("free_bytes"), "12288");
  EXPECT_EQ(value("largest_free_bytes"), "12288");
  EXPECT_EQ(value("largest_loadable_bytes"), "12288");
  EXPECT_EQ(value("holders"), "tester/0 on mine@1");

  EXPECT_TRUE(HasReason(Load("huge", "huge").status(), Reason::kCapacity));
  // The largest request named as such succeeds.
  WriteModel("fits", {KiB(12)}, 9);
  EXPECT_TRUE(Load("fits", "fits").ok());
}

TEST_F(PressureTest, AnIdleMappingIsRecalledAndItsAnswerMakesRoom) {
  Start(RoomFor(KiB(64)));
  const ShareSerial share = RetainMapped("old", KiB(40), session_);
  auto loading = LoadAsync("new", KiB(50));
  const auto recalls = events_.AwaitRecalls();
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].share, share);
  EXPECT_EQ(LedgerNow().retained, KiB(40));  // untouched before the answer
  EXPECT_TRUE(store_->Unmapped(session_, share));
  const StatusOr<LoadResult> loaded = loading.get();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reclaimed, std::vector<std::string>{"old@1"});
}

TEST_F(PressureTest, WhoDoesNotAnswerARecallIsPassedOverAndQuarantined) {
  Start(RoomFor(KiB(96)));
  const SessionId deaf = OpenSession("deaf");
  RetainMapped("oldest", KiB(40), deaf);
  const ShareSerial polite = RetainMapped("older", KiB(44), session_);
  auto loading = LoadAsync("new", KiB(30));
  ASSERT_EQ(events_.AwaitRecalls().at(0).session, deaf);
  Pass(milliseconds(201));  // over: the next one is asked
  ASSERT_EQ(events_.AwaitRecalls().at(0).session, session_);
  EXPECT_EQ(LedgerNow().quarantined, KiB(40));
  EXPECT_TRUE(store_->Unmapped(session_, polite));
  ASSERT_TRUE(loading.get().ok());
  EXPECT_EQ(LedgerNow().quarantined, KiB(40));
  // It comes back when the process has ended.
  store_->EndSession(deaf);
  EXPECT_EQ(LedgerNow().quarantined, Bytes(0));
  EXPECT_EQ(LedgerNow().retained, KiB(40));
}

TEST_F(PressureTest, RegionsNobodyHasMappedGoBeforeThoseThatMustBeRecalled) {
  Start(RoomFor(KiB(96)));
  RetainMapped("mapped", KiB(40), session_);  // older
  Retain("unmapped", KiB(44));
  WriteModel("new", {KiB(50)}, 1);
  const StatusOr<LoadResult> loaded = Load("new", "new");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reclaimed, std::vector<std::string>{"unmapped@1"});
  EXPECT_TRUE(events_.TakeRecalls().empty());
}

// Promise 3: an attempt that fails leaves active models as they were.
TEST_F(PressureTest, AnIdleModelStaysOnlineUntilWhoeverHasItMappedHasAnswered) {
  DeviceStoreOptions options = RoomFor(KiB(64));
  options.idle_unload_after = seconds(30);
  Start(options);
  WriteModel("idle", {KiB(40)}, 1);
  ASSERT_TRUE(Load("idle", "idle").ok());
  const GrantedLease lease = *store_->Acquire(session_, "idle", "", {}, "");
  ASSERT_TRUE(Fetch(session_, lease.id).ok());
  ASSERT_TRUE(store_->Release(session_, lease.id).ok());
  Pass(seconds(31));

  auto deaf = LoadAsync("new", KiB(50));
  events_.AwaitRecalls();
  EXPECT_EQ(store_->GetModel("idle", {}, "")->state, RegionState::kActive);
  Pass(milliseconds(201));
  EXPECT_TRUE(HasReason(deaf.get().status(), Reason::kHeldByLeases));
  EXPECT_EQ(store_->GetModel("idle", {}, "")->state, RegionState::kActive);

  // It comes back to the model, and is done with it: now it answers.
  const StatusOr<GrantedLease> again = store_->Acquire(session_, "idle", "", {}, "");
  const StatusOr<ShareExport> batch = Fetch(session_, again->id);
  ASSERT_TRUE(batch.ok()) << batch.status();
  ASSERT_TRUE(store_->Release(session_, again->id).ok());
  Pass(seconds(31));
  auto polite = LoadAsync("new", KiB(50));
  events_.AwaitRecalls();
  EXPECT_TRUE(store_->Unmapped(session_, batch->share.serial));
  const StatusOr<LoadResult> loaded = polite.get();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reclaimed, std::vector<std::string>{"idle@1"});
}

// A refusal has cost nobody anything.
TEST_F(PressureTest, NothingIsReclaimedBeforeEveryRecallIsAnswered) {
  Start(RoomFor(KiB(96)));
  RetainMapped("mapped", KiB(40), session_);
  Retain("unmapped", KiB(44));
  auto loading = LoadAsync("new", KiB(90));
  events_.AwaitRecalls();
  EXPECT_EQ(LedgerNow().retained, KiB(84));
  Pass(milliseconds(201));
  EXPECT_TRUE(HasReason(loading.get().status(), Reason::kHeldByLeases));
  EXPECT_EQ(LedgerNow().retained, KiB(44));
  EXPECT_EQ(LedgerNow().quarantined, KiB(40));
}

TEST_F(PressureTest, AnAcquiredRegionIsNotReclaimedThoughItsRecallIsUnderWay) {
  Start(RoomFor(KiB(64)));
  RetainMapped("old", KiB(40), session_);
  auto loading = LoadAsync("new", KiB(50));
  events_.AwaitRecalls();
  const StatusOr<LoadResult> back = LoadLeased("old", "old");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->reuse, Reuse::kRevived);
  EXPECT_TRUE(HasReason(loading.get().status(), Reason::kHeldByLeases));
  Pass(milliseconds(300));
  EXPECT_EQ(LedgerNow().leased, KiB(40));
}

TEST_F(PressureTest, ALoadWaitsForSegmentsThatAreOnTheirWayToTheBackend) {
  DeviceStoreOptions options = RoomFor(KiB(64));
  options.retain_ttl = seconds(1);
  options.cache_ttl = Duration::zero();
  Start(options);
  WriteModel("old", {KiB(40)}, 1);
  ASSERT_TRUE(Load("old", "old").ok());
  ASSERT_TRUE(Unload("old").ok());
  hardware_[0]->HoldDestructions(true);
  Pass(seconds(2));
  Pass(milliseconds(1));
  EXPECT_EQ(LedgerNow().free(), KiB(64));
  auto loading = LoadAsync("new", KiB(50));
  EXPECT_EQ(loading.wait_for(milliseconds(50)), std::future_status::timeout);
  hardware_[0]->HoldDestructions(false);
  ASSERT_TRUE(loading.get().ok());
  const BackendCounters backend = Backend();
  EXPECT_LE(backend.bytes_created - backend.bytes_destroyed, KiB(64));
}

TEST_F(PressureTest, CachedSegmentsThatFitNothingMakeWay) {
  Start(RoomFor(KiB(64)));
  Retain("odd", KiB(12));  // 8 and 4 KiB
  Pass(std::chrono::hours(2));
  EXPECT_EQ(LedgerNow().cached, KiB(12));
  WriteModel("full", {KiB(64)}, 1);
  const StatusOr<LoadResult> full = Load("full", "full");
  ASSERT_TRUE(full.ok()) << full.status();
  EXPECT_EQ(full->reuse, Reuse::kFresh);
  EXPECT_EQ(LedgerNow().reserved, KiB(64));
  EXPECT_EQ(Backend().bytes_destroyed, KiB(12));
}

}  // namespace
}  // namespace tenure
