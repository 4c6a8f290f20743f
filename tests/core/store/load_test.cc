#include <future>

#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class LoadTest : public StoreTest {
 protected:
  std::future<StatusOr<LoadResult>> LoadAsync(const LoadRequest& request, CallLimits limits = {}) {
    return std::async(std::launch::async,
                      [this, request, limits] { return store_->Load(request, limits); });
  }

  // Everything as it was before a load: what failed left nothing behind.
  void ExpectNothingLeft(const Ledger& before, const BackendCounters& backend_before) {
    store_->devices()[0]->Validate();
    const Ledger now = LedgerNow();
    EXPECT_EQ(now.allocated(), before.allocated());
    EXPECT_EQ(now.retained, before.retained);
    const BackendCounters backend = Backend();
    EXPECT_EQ((backend.bytes_created - backend.bytes_destroyed) -
                  (backend_before.bytes_created - backend_before.bytes_destroyed),
              now.reserved - before.reserved);
  }
};

TEST_F(LoadTest, EqualLoadsReadOnceAndALoadOnAnotherDeviceFinishesMeanwhile) {
  Start(DefaultOptions(), 2);
  WriteModel("a", {KiB(40)}, 1);
  WriteModel("b", {KiB(20)}, 2);
  LoadRequest request = RequestFor("a", "a");
  request.device = "host:0";
  request.acquire = true;
  files_.Hold("/a");
  std::vector<std::future<StatusOr<LoadResult>>> loads;
  for (int i = 0; i < 10; ++i) loads.push_back(LoadAsync(request));
  files_.AwaitHeldRead();
  LoadRequest elsewhere = RequestFor("b", "b");
  elsewhere.device = "host:1";
  EXPECT_TRUE(store_->Load(elsewhere, {}).ok());
  EXPECT_TRUE(
      HasReason(store_->Acquire(session_, "a", "", {}, "").status(), Reason::kModelUnavailable));
  EXPECT_EQ(store_->ProgressOf("a", "")->total, KiB(40));
  files_.Release();
  std::set<LeaseId> leases;
  for (auto& load : loads) {
    const StatusOr<LoadResult> result = load.get();
    ASSERT_TRUE(result.ok()) << result.status();
    leases.insert(result->lease->id);
  }
  EXPECT_EQ(leases.size(), 10U);  // one each
  EXPECT_EQ(files_.payload_bytes(), KiB(40).count() + KiB(20).count());
}

TEST_F(LoadTest, ALoadThatNobodyWaitsForAnyMoreIsAbandoned) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  const Ledger before = LedgerNow();
  const BackendCounters backend = Backend();
  files_.Hold("/a");
  std::atomic<bool> gone = false;
  CallLimits limits;
  limits.cancelled = [&] { return gone.load(); };
  auto load = LoadAsync(RequestFor("a", "a"), limits);
  files_.AwaitHeldRead();
  gone = true;
  EXPECT_TRUE(HasReason(load.get().status(), Reason::kCancelled));
  files_.Release();
  store_->devices()[0]->WaitUntilQuiet();
  ExpectNothingLeft(before, backend);
  EXPECT_TRUE(store_->Models().empty());
}

TEST_F(LoadTest, ALoadGoesOnWhileOneOfItsCallsStillWaits) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  files_.Hold("/a");
  CallLimits short_limit;
  short_limit.deadline = clock_.Now() + seconds(1);
  auto patient = LoadAsync(RequestFor("a", "a"));
  files_.AwaitHeldRead();
  auto hasty = LoadAsync(RequestFor("a", "a"), short_limit);
  clock_.Advance(seconds(2));
  EXPECT_TRUE(HasReason(hasty.get().status(), Reason::kDeadline));
  files_.Release();
  EXPECT_TRUE(patient.get().ok());
}

TEST_F(LoadTest, LoadsBeyondTheLimitWaitForTheirTurnUntilTheirDeadline) {
  DeviceStoreOptions options = DefaultOptions();
  options.concurrent_loads = 1;
  Start(options);
  WriteModel("a", {KiB(40)}, 1);
  WriteModel("b", {KiB(20)}, 1);
  files_.Hold("/a");
  auto first = LoadAsync(RequestFor("a", "a"));
  files_.AwaitHeldRead();
  CallLimits limits;
  limits.deadline = clock_.Now() + seconds(1);
  auto second = LoadAsync(RequestFor("b", "b"), limits);
  while (store_->devices()[0]->TakeSnapshot().queued_loads == 0) std::this_thread::yield();
  clock_.Advance(seconds(2));
  EXPECT_TRUE(HasReason(second.get().status(), Reason::kDeadline));
  files_.Release();
  EXPECT_TRUE(first.get().ok());
}

// Field case 14: a load that ends late does not undo a later one.
TEST_F(LoadTest, OfTwoLoadsOfOneNameTheLastOneAskedForStays) {
  Start();
  WriteModel("v1", {KiB(40)}, 1);
  WriteModel("v2", {KiB(40)}, 2);
  files_.Hold("/v1");
  auto first = LoadAsync(RequestFor("m", "v1"));
  files_.AwaitHeldRead();
  auto second = LoadAsync(RequestFor("m", "v2"));
  while (store_->devices()[0]->TakeSnapshot().queued_loads == 0 &&
         second.wait_for(seconds(0)) != std::future_status::ready) {
    std::this_thread::yield();
  }
  files_.Release();
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_TRUE(store_->GetModel("m", {}, "")->path.ends_with("/v2"));
}

TEST_F(LoadTest, UnloadStopsALoadThatIsStillRunning) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  files_.Hold("/a");
  auto load = LoadAsync(RequestFor("a", "a"));
  files_.AwaitHeldRead();
  const StatusOr<UnloadResult> unloaded = Unload("a");
  ASSERT_TRUE(unloaded.ok()) << unloaded.status();
  EXPECT_EQ(unloaded->state, RegionState::kFreed);
  files_.Release();
  EXPECT_TRUE(HasReason(load.get().status(), Reason::kModelUnavailable));
  store_->devices()[0]->WaitUntilQuiet();
  EXPECT_TRUE(store_->Models().empty());
}

// Field case 6, as far as loads go.
TEST_F(LoadTest, AFailedReadOrCreationLeavesNothingBehindAndARetrySucceeds) {
  Start();
  WriteModel("a", {KiB(20), KiB(20)}, 1);
  for (const bool read_fails : {false, true}) {
    for (int k = 1; k <= 2; ++k) {
      const Ledger before = LedgerNow();
      const BackendCounters backend = Backend();
      if (read_fails) files_.FailRead(k);
      if (!read_fails) hardware_[0]->FailCreation(k);
      const Status failed = Load("a", "a").status();
      EXPECT_TRUE(HasReason(failed, read_fails ? Reason::kFileUnreadable : Reason::kBackend))
          << failed;
      store_->devices()[0]->WaitUntilQuiet();
      ExpectNothingLeft(before, backend);
      // The cache would answer the next one without the backend.
      LoadRequest fill = RequestFor("a", "a");
      fill.retain_ttl = Duration::zero();
      if (read_fails) {
        ASSERT_TRUE(store_->Load(fill, {}).ok());
        ASSERT_TRUE(Unload("a").ok());
      }
    }
  }
  EXPECT_TRUE(Load("a", "a").ok());
}

// Promise 3: never an old id with mixed bytes.
TEST_F(LoadTest, AFailedAdoptionLeavesTheRegionEmptyWithANewGenerationAndNamesWhatIsGone) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  WriteModel("b", {KiB(40)}, 2);
  const StatusOr<LoadResult> a = Load("a", "a");
  ASSERT_TRUE(Unload("a").ok());
  files_.FailRead(1);
  const Status failed = Load("b", "b").status();
  EXPECT_TRUE(HasReason(failed, Reason::kFileUnreadable));
  EXPECT_NE(failed.message().find("a@1"), std::string::npos) << failed;
  store_->devices()[0]->WaitUntilQuiet();
  store_->devices()[0]->Validate();
  const std::vector<ModelView> models = store_->Models();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].state, RegionState::kEmpty);
  EXPECT_FALSE(models[0].content.has_value());
  EXPECT_GT(models[0].generation, a->model.generation);

  const StatusOr<LoadResult> again = Load("a", "a");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->reuse, Reuse::kAdopted);  // never revived
}

TEST_F(LoadTest, ALeaseForASessionThatEndedMeanwhileIsNotGranted) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  LoadRequest request = RequestFor("a", "a");
  request.acquire = true;
  files_.Hold("/a");
  auto load = LoadAsync(request);
  files_.AwaitHeldRead();
  store_->EndSession(session_);
  files_.Release();
  EXPECT_TRUE(HasReason(load.get().status(), Reason::kSessionUnknown));
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().live_leases, 0U);
}

TEST_F(LoadTest, AWithdrawnLoadRequestKeepsNoLease) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  LoadRequest request = RequestFor("a", "a");
  request.acquire = true;
  request.request_id = "r";
  files_.Hold("/a");
  auto load = LoadAsync(request);
  files_.AwaitHeldRead();
  EXPECT_TRUE(store_->ReleaseLoadRequest(session_, "r").ok());
  files_.Release();
  EXPECT_TRUE(HasReason(load.get().status(), Reason::kCancelled));
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().live_leases, 0U);
}

// Field case 10: the phases follow one another and make up the whole.
TEST_F(LoadTest, ThePhasesAddUpToTheTotal) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  const StatusOr<LoadResult> a = Load("a", "a");
  ASSERT_TRUE(a.ok());
  const LoadPhases& phases = a->phases;
  EXPECT_EQ(phases.open + phases.parse + phases.place + phases.read + phases.copy + phases.publish,
            phases.total);
}

TEST_F(LoadTest, ALoadThatIsRefusedBeforeADeviceIsAskedIsCountedByItsReason) {
  Start();
  EXPECT_TRUE(HasReason(Load("a", "missing").status(), Reason::kFileNotFound));
  EXPECT_TRUE(HasReason(Load("a b", "missing").status(), Reason::kInvalidRequest));
  EXPECT_EQ(store_->RefusedLoads(),
            (std::map<std::string, uint64_t>{{"FILE_NOT_FOUND", 1}, {"INVALID_REQUEST", 1}}));
}

TEST_F(LoadTest, AFileThatChangesWhileItIsReadIsNotPublished) {
  Start();
  WriteModel("a", {KiB(40)}, 1);
  files_.Hold("/a");
  auto load = LoadAsync(RequestFor("a", "a"));
  files_.AwaitHeldRead();
  WriteModel("a", {KiB(40)}, 2);
  files_.Release();
  EXPECT_TRUE(HasReason(load.get().status(), Reason::kFileChanged));
}

}  // namespace
}  // namespace tenure
