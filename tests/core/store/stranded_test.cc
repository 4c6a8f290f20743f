// Memory that is nobody's and still pinned: from before the start, or kept by a client that said
// that it had unmapped it.

#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using StrandedTest = StoreTest;

TEST_F(StrandedTest, IsNotFreeUntilItsHolderSaysSoOrEnds) {
  Start();
  store_->SetSurviving(session_, {{"host:0", {.weights = KiB(200)}}});
  EXPECT_EQ(LedgerNow().stranded, KiB(200));
  EXPECT_EQ(LedgerNow().free(), KiB(56));
  store_->devices()[0]->Validate();
  WriteModel("a", {KiB(100)}, 1);
  const StatusOr<LoadResult> refused = Load("a", "a");
  EXPECT_TRUE(HasReason(refused.status(), Reason::kCapacity));
  EXPECT_NE(std::string(refused.status().message()).find("stranded 200 KiB"), std::string::npos);

  store_->SetSurviving(session_, {{"host:0", {.weights = KiB(40)}}});
  EXPECT_TRUE(Load("a", "a").ok());
  EXPECT_EQ(LedgerNow().stranded, KiB(40));
  store_->EndSession(session_);
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
  store_->devices()[0]->Validate();
}

TEST_F(StrandedTest, OfSeveralSessionsAddsUp) {
  Start();
  const SessionId other = OpenSession("other");
  store_->SetSurviving(session_, {{"host:0", {.weights = KiB(60)}}});
  store_->SetSurviving(other, {{"host:0", {.weights = KiB(40)}}});
  EXPECT_EQ(LedgerNow().stranded, KiB(100));
  store_->CloseSession(other);  // its process may live
  EXPECT_EQ(LedgerNow().stranded, KiB(100));
  store_->EndSession(other);
  EXPECT_EQ(LedgerNow().stranded, KiB(60));
}

TEST_F(StrandedTest, ClaimsBeyondTheDeviceOnlyLeaveNothingFree) {
  Start();
  store_->SetSurviving(
      session_, {{"host:0", {.weights = Bytes(UINT64_MAX)}}, {"gpu:9", {.weights = KiB(1)}}});
  store_->SetSurviving(OpenSession("other"), {{"host:0", {.weights = Bytes(UINT64_MAX)}}});
  EXPECT_EQ(LedgerNow().stranded, LedgerNow().capacity);
  EXPECT_EQ(LedgerNow().free(), Bytes(0));
  store_->devices()[0]->Validate();
}

TEST_F(StrandedTest, OfAnEndedSessionIsNotTaken) {
  Start();
  store_->EndSession(session_);
  store_->SetSurviving(session_, {{"host:0", {.weights = KiB(60)}}});
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
}

TEST_F(StrandedTest, IsNotTakenOffACapacityThatWasMeasuredWithoutIt) {
  DeviceStoreOptions options = DefaultOptions();
  options.capacity_includes_survivors = false;
  Start(options);
  store_->SetSurviving(session_, {{"host:0", {.weights = KiB(60)}}});
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
}

// Field case 17.
class PinnedTest : public StoreTest {
 protected:
  void StartWith(Bytes capacity, Duration cache_ttl) {
    DeviceStoreOptions options = DefaultOptions();
    options.weights_capacity = capacity;
    options.cache_ttl = cache_ttl;
    Start(options);
  }

  // Loads a model and takes it offline. What is returned are fds of its memory that a client keeps
  // though it has said "unmapped".
  std::vector<UniqueFd> Hoard(const std::string& name, Bytes size) {
    WriteModel(name, {size}, 1);
    const StatusOr<LoadResult> loaded = LoadLeased(name, name);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    StatusOr<ShareExport> batch = Fetch(session_, loaded->lease->id);
    EXPECT_TRUE(batch.ok()) << batch.status();
    EXPECT_TRUE(store_->Release(session_, loaded->lease->id).ok());
    EXPECT_TRUE(store_->Unmapped(session_, batch->share.serial));
    EXPECT_TRUE(Unload(name).ok());
    return std::move(batch->fds);
  }

  // Retention is over, and with it the cache's TTL if that is zero. Nothing ticks after that.
  void OutliveRetention() {
    Pass(std::chrono::seconds(61));
    store_->devices()[0]->WaitUntilQuiet();
  }

  StatusOr<LoadResult> LoadNew(const std::string& name, Bytes size) {
    WriteModel(name, {size}, 1);
    return Load(name, name);
  }

  static void ExpectStrandedIsNamed(const Status& refused, const std::string& bytes) {
    EXPECT_TRUE(HasReason(refused, Reason::kCapacity)) << refused;
    const std::string message(refused.message());
    EXPECT_NE(message.find("stranded " + bytes), std::string::npos) << message;
    EXPECT_NE(message.find("stranded bytes are free once"), std::string::npos) << message;
  }

  // Beside what is pinned, the backend gave no more than there is.
  void ExpectCapacityIsKept() const {
    store_->devices()[0]->Validate();
    const BackendCounters backend = Backend();
    EXPECT_LE(backend.bytes_created - backend.bytes_destroyed +
                  *hardware_[0]->stranded(SegmentUse::kWeights),
              LedgerNow().capacity);
  }
};

TEST_F(PinnedTest, WhatGoesBackToTheBackendIsNotFreeWhileAnFdOfItIsKept) {
  StartWith(KiB(64), Duration::zero());
  std::vector<UniqueFd> kept = Hoard("old", KiB(40));
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
  OutliveRetention();
  EXPECT_EQ(Backend().bytes_destroyed, KiB(40));
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
  EXPECT_EQ(LedgerNow().stranded, KiB(40));
  EXPECT_EQ(LedgerNow().free(), KiB(24));
  ExpectStrandedIsNamed(LoadNew("new", KiB(30)).status(), "40 KiB");
  EXPECT_TRUE(LoadNew("small", KiB(24)).ok());
  ExpectCapacityIsKept();

  kept.pop_back();  // the Segment of 8 KiB
  Pass(std::chrono::milliseconds(1));
  EXPECT_EQ(LedgerNow().stranded, KiB(32));
  kept.clear();
  Pass(std::chrono::milliseconds(1));
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
  EXPECT_TRUE(LoadNew("new", KiB(30)).ok());
}

TEST_F(PinnedTest, ALoadIsNotRefusedForWhatWasLetGoOfAMomentAgo) {
  StartWith(KiB(64), Duration::zero());
  std::vector<UniqueFd> kept = Hoard("old", KiB(40));
  OutliveRetention();
  ASSERT_EQ(LedgerNow().stranded, KiB(40));
  kept.clear();
  const StatusOr<LoadResult> loaded = LoadNew("new", KiB(50));
  EXPECT_TRUE(loaded.ok()) << loaded.status();
}

// The cache of 8 and 4 KiB fits nothing, and makes way for a load that needs it all.
TEST_F(PinnedTest, ALoadThatWouldNeedWhatItEvictedIsRefusedIfThatIsPinned) {
  StartWith(KiB(48), kForever);
  std::vector<UniqueFd> kept = Hoard("odd", KiB(12));
  OutliveRetention();
  ASSERT_EQ(LedgerNow().cached, KiB(12));
  ExpectStrandedIsNamed(LoadNew("new", KiB(48)).status(), "12 KiB");
  EXPECT_EQ(Backend().segments_created, 2U);  // only those of "odd"
  EXPECT_EQ(LedgerNow().free(), KiB(36));
  EXPECT_FALSE(store_->GetModel("new", {}, "").ok());
  ExpectCapacityIsKept();

  EXPECT_TRUE(LoadNew("fits", KiB(36)).ok());
  ASSERT_TRUE(Unload("fits").ok());
  kept.clear();
  EXPECT_TRUE(LoadNew("new", KiB(48)).ok());
}

TEST_F(PinnedTest, WhatElseCanBeReclaimedTakesThePlaceOfWhatWasEvictedAndIsPinned) {
  StartWith(KiB(64), kForever);
  const std::vector<UniqueFd> kept = Hoard("odd", KiB(12));
  OutliveRetention();
  ASSERT_TRUE(LoadNew("retained", KiB(16)).ok());
  ASSERT_TRUE(Unload("retained").ok());
  const StatusOr<LoadResult> loaded = LoadNew("new", KiB(48));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reclaimed, std::vector<std::string>{"retained@1"});
  EXPECT_EQ(LedgerNow().stranded, KiB(12));
  EXPECT_EQ(LedgerNow().free(), KiB(4));
  ExpectCapacityIsKept();
}

// Within the daemon memory changes its purpose on the holder's word alone.
TEST_F(PinnedTest, WhatIsUsedAgainWithoutGoingBackIsNotStranded) {
  StartWith(KiB(64), kForever);
  const std::vector<UniqueFd> kept = Hoard("old", KiB(48));
  OutliveRetention();
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
  EXPECT_TRUE(LoadNew("new", KiB(64)).ok());
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
}

}  // namespace
}  // namespace tenure
