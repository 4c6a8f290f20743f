#include <thread>

#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using std::chrono::seconds;

class OperateTest : public StoreTest {
 protected:
  DeviceStore& device(size_t index = 0) { return *store_->devices()[index]; }
  RuntimeStore& runtime(size_t index = 0) { return *store_->runtimes()[index]; }

  void StartWithRuntime(int devices = 1) {
    store_.reset();
    std::vector<DeviceOptions> list;
    for (int i = 0; i < devices; ++i) {
      RuntimeStoreOptions options;
      options.capacity = KiB(128);
      options.segment_size = KiB(16);
      list.push_back({.device = std::make_unique<SmallDevice>("host:" + std::to_string(i)),
                      .store = DefaultOptions(),
                      .runtime = options});
    }
    store_ = std::make_unique<Store>(
        StoreOptions{.model_roots = {ModelRoot{.name = "models", .path = directory_.path()}}},
        std::move(list), clock_, files_, events_);
    session_ = OpenSession("tester");
  }

  StatusOr<PoolGrant> Buffer(SessionId session, Bytes size, const std::string& device) {
    return store_->AcquirePool(
        {.session = session,
         .wanted = std::vector<BufferSpec>{{.size = size, .kind = BufferKind::kIo}}},
        device, "", {});
  }
};

TEST_F(OperateTest, ANewRetainTtlCountsForWhatIsRetainedAlready) {
  Start();
  WriteModel("a", {KiB(4)}, 1);
  WriteModel("own", {KiB(8)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  LoadRequest own = RequestFor("own", "own");
  own.retain_ttl = seconds(50);
  ASSERT_TRUE(store_->Load(own, {}).ok());
  ASSERT_TRUE(Unload("a").ok());
  ASSERT_TRUE(Unload("own").ok());
  Pass(seconds(10));
  EXPECT_EQ(LedgerNow().retained, KiB(12));

  DeviceStoreTimes times = DefaultOptions();
  times.retain_ttl = seconds(20);
  device().SetTimes(times);
  Pass(seconds(9));
  EXPECT_EQ(LedgerNow().retained, KiB(12));
  Pass(seconds(1));
  EXPECT_EQ(LedgerNow().retained, KiB(8));
  times.retain_ttl = kForever;
  device().SetTimes(times);
  Pass(seconds(30));
  EXPECT_EQ(LedgerNow().retained, Bytes(0));
}

TEST_F(OperateTest, NewTimesCountForLeasesCacheAndIdleModels) {
  Start();
  WriteModel("a", {KiB(4)}, 1);
  const LoadResult before = *LoadLeased("a", "a");
  DeviceStoreTimes times = DefaultOptions();
  times.default_lease_ttl = seconds(5);
  times.cache_ttl = Duration::zero();
  times.idle_unload_after = seconds(1);
  device().SetTimes(times);
  const GrantedLease after = *store_->Acquire(session_, "a", "", std::nullopt, "");
  EXPECT_EQ(before.lease->ttl, seconds(30));
  EXPECT_EQ(after.ttl, seconds(5));

  Pass(seconds(31));
  EXPECT_EQ(LedgerNow().idle, KiB(4));
  Pass(seconds(1));
  WriteModel("large", {KiB(256)}, 1);
  ASSERT_TRUE(Load("large", "large").ok());  // the idle one made way
  ASSERT_TRUE(Unload("large").ok());
  device().Trim(/*retained=*/true, {});
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
}

// Field case 55.
TEST_F(OperateTest, ACordonedDeviceTakesNothingNewAndLeasesGoOn) {
  Start();
  WriteModel("a", {KiB(16)}, 1);
  WriteModel("b", {KiB(16)}, 2);
  WriteModel("c", {KiB(32)}, 3);
  const LoadResult a = *LoadLeased("a", "a");
  ASSERT_TRUE(Load("retained", "c").ok());
  ASSERT_TRUE(Unload("retained").ok());
  device().SetCordoned(true);
  EXPECT_TRUE(device().TakeSnapshot().cordoned);

  for (const char* device : {"", "host:0"}) {
    LoadRequest request = RequestFor("b", "b");
    request.device = device;
    const Status refused = store_->Load(request, {}).status();
    EXPECT_TRUE(HasReason(refused, Reason::kCordoned)) << refused;
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_NE(std::string(refused.message()).find("tenurectl uncordon host:0"), std::string::npos);
  }
  EXPECT_EQ(device().TakeSnapshot().counters.failed_loads.at("CORDONED"), 2u);
  // Neither revived nor adopted.
  EXPECT_TRUE(HasReason(Load("retained", "c").status(), Reason::kCordoned));
  WriteModel("like_c", {KiB(32)}, 4);
  EXPECT_TRUE(HasReason(Load("like_c", "like_c").status(), Reason::kCordoned));
  // What is online is leased as before, and loaded by those who load what they use.
  EXPECT_TRUE(store_->Acquire(session_, "a", "", std::nullopt, "").ok());
  EXPECT_EQ(LoadLeased("a", "a")->reuse, Reuse::kResident);
  Pass(seconds(1));
  EXPECT_TRUE(device().IsLive(session_, a.lease->id));

  device().SetCordoned(false);
  EXPECT_EQ(Load("retained", "c")->reuse, Reuse::kRevived);
  EXPECT_TRUE(Load("b", "b").ok());
}

// Field case 55.
TEST_F(OperateTest, ALoadThatNamesNoDeviceGoesToOneThatIsNotCordoned) {
  Start(DefaultOptions(), 2);
  WriteModel("a", {KiB(16)}, 1);
  ASSERT_EQ(Load("a", "a")->model.device, "host:0");
  ASSERT_TRUE(Unload("a").ok());
  device(0).SetCordoned(true);
  EXPECT_EQ(Load("a", "a")->model.device, "host:1");  // though its bytes are retained on host:0
  WriteModel("b", {KiB(16)}, 2);
  LoadRequest named = RequestFor("b", "b");
  named.device = "host:0";
  EXPECT_TRUE(HasReason(store_->Load(named, {}).status(), Reason::kCordoned));
  device(1).SetCordoned(true);
  EXPECT_TRUE(HasReason(Load("b", "b").status(), Reason::kCordoned));
  EXPECT_EQ(Load("a", "a")->reuse, Reuse::kResident);
}

TEST_F(OperateTest, ACordonedDeviceSaysThatNothingFits) {
  StartWithRuntime();
  device().SetCordoned(true);
  runtime().SetCordoned(true);
  EXPECT_EQ(store_->FitWeights(KiB(4), "")->front().verdict, FitVerdict::kCordoned);
  const PoolRequest request{
      .session = session_,
      .wanted = std::vector<BufferSpec>{{.size = KiB(4), .kind = BufferKind::kIo}}};
  EXPECT_EQ(store_->FitPool(request, "")->front().verdict, FitVerdict::kCordoned);
}

TEST_F(OperateTest, ACordonedDeviceOpensNoPoolAndThoseThatAreThereGrow) {
  StartWithRuntime(2);
  ASSERT_EQ(Buffer(session_, KiB(16), "host:0")->pool.device, "host:0");
  runtime(0).SetCordoned(true);
  EXPECT_EQ(Buffer(session_, KiB(48), "")->pool.device, "host:0");
  const SessionId other = OpenSession("other");
  const Status refused = Buffer(other, KiB(4), "host:0").status();
  EXPECT_TRUE(HasReason(refused, Reason::kCordoned)) << refused;
  EXPECT_EQ(runtime(0).TakeSnapshot().counters.refusals.at("CORDONED"), 1u);
  EXPECT_EQ(Buffer(other, KiB(4), "")->pool.device, "host:1");
  runtime(0).SetCordoned(false);
  EXPECT_TRUE(Buffer(OpenSession("third"), KiB(4), "host:0").ok());
}

TEST_F(OperateTest, TrimGivesCachedSegmentsBackAndKeepsWhatIsRetained) {
  StartWithRuntime();
  WriteModel("a", {KiB(32)}, 1);
  WriteModel("b", {KiB(64)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  LoadRequest b = RequestFor("b", "b");
  b.retain_ttl = Duration::zero();
  ASSERT_TRUE(store_->Load(b, {}).ok());
  ASSERT_TRUE(Unload("a").ok());
  ASSERT_TRUE(Unload("b").ok());
  EXPECT_EQ(LedgerNow().cached, KiB(64));
  EXPECT_EQ(device().Trim(/*retained=*/false, {}), KiB(64));
  EXPECT_EQ(LedgerNow().cached, Bytes(0));
  EXPECT_EQ(LedgerNow().retained, KiB(32));
  EXPECT_EQ(LedgerNow().reserved, KiB(32));
  EXPECT_EQ(device().Trim(/*retained=*/true, {}), KiB(32));
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
  EXPECT_EQ(device().TakeSnapshot().counters.reclaims[size_t(ReclaimCause::kTrimmed)], 1u);

  const SessionId other = OpenSession("other");
  ASSERT_TRUE(Buffer(other, KiB(16), "").ok());
  store_->EndSession(other);
  EXPECT_EQ(runtime().Trim({}), KiB(16));
  EXPECT_EQ(runtime().TakeSnapshot().ledger.reserved, Bytes(0));
  device().Validate();
  runtime().Validate();
}

TEST_F(OperateTest, TrimRecallsWhatIsRetainedAndMapped) {
  Start();
  WriteModel("a", {KiB(32)}, 1);
  const LoadResult a = *LoadLeased("a", "a");
  const StatusOr<ShareExport> share = Fetch(session_, a.lease->id);
  ASSERT_TRUE(store_->Release(session_, a.lease->id).ok());
  ASSERT_TRUE(Unload("a").ok());
  std::thread client([&] {
    for (const RecordedEvents::RecallEvent& each : events_.AwaitRecalls()) {
      store_->Unmapped(each.session, each.share);
    }
  });
  EXPECT_EQ(device().Trim(/*retained=*/true, {}), KiB(32));
  client.join();
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
}

TEST_F(OperateTest, TrimEndsByItsDeadlineWithWhatIsMappedLeftAlone) {
  Start();
  WriteModel("a", {KiB(32)}, 1);
  const LoadResult a = *LoadLeased("a", "a");
  const StatusOr<ShareExport> share = Fetch(session_, a.lease->id);
  ASSERT_TRUE(store_->Release(session_, a.lease->id).ok());
  ASSERT_TRUE(Unload("a").ok());
  // Nobody answers, and the clock stands still.
  EXPECT_EQ(device().Trim(/*retained=*/true, {.deadline = clock_.Now(), .cancelled = {}}),
            Bytes(0));
  EXPECT_EQ(LedgerNow().retained, KiB(32));
}

TEST_F(OperateTest, UnloadAllTakesEveryModelOfflineAndLeasesLive) {
  Start();
  WriteModel("a", {KiB(16)}, 1);
  WriteModel("b", {KiB(32)}, 2);
  const LoadResult a = *LoadLeased("a", "a");
  ASSERT_TRUE(Load("b", "b").ok());
  device().UnloadAll();
  EXPECT_EQ(device().GetModel("a", {})->state, RegionState::kDraining);
  EXPECT_EQ(device().GetModel("b", {})->state, RegionState::kRetained);
  EXPECT_TRUE(device().IsLive(session_, a.lease->id));
  EXPECT_TRUE(HasReason(store_->Acquire(session_, "a", "", std::nullopt, "").status(),
                        Reason::kModelDraining));
  // Back online only once the device takes models again.
  device().SetCordoned(true);
  EXPECT_TRUE(HasReason(Load("a", "a").status(), Reason::kCordoned));
  device().SetCordoned(false);
  EXPECT_EQ(Load("a", "a")->reuse, Reuse::kResident);
}

TEST_F(OperateTest, RecallIdleAsksForWhatIsMappedWithoutALease) {
  Start();
  WriteModel("a", {KiB(16)}, 1);
  WriteModel("b", {KiB(32)}, 2);
  const LoadResult a = *LoadLeased("a", "a");
  const LoadResult b = *LoadLeased("b", "b");
  const StatusOr<ShareExport> share_a = Fetch(session_, a.lease->id);
  const StatusOr<ShareExport> share_b = Fetch(session_, b.lease->id);
  EXPECT_TRUE(device().mapped());
  ASSERT_TRUE(store_->Release(session_, a.lease->id).ok());
  device().RecallIdle();
  const std::vector<RecordedEvents::RecallEvent> recalls = events_.TakeRecalls();
  ASSERT_EQ(recalls.size(), 1u);
  EXPECT_EQ(recalls[0].region, a.lease->region);
}

}  // namespace
}  // namespace tenure
