#include <future>
#include <gmock/gmock.h>

#include "tests/core/store/store_fixture.h"

// A Device that does not serve any more: what was on it ends with DEVICE_LOST, and nobody waits for
// it. Nothing of the other Device is touched.

namespace tenure {
namespace {

class DeviceLossTest : public StoreTest {
 protected:
  DeviceLossTest() {
    WriteModel("a", {KiB(8)}, 1);
    WriteModel("a2", {KiB(8)}, 2);
    WriteModel("b", {KiB(24)}, 1);
    Start(DefaultOptions(), 2);
  }
  ~DeviceLossTest() override {
    for (SmallDevice* device : hardware_) device->HoldCreations(false);
  }

  StatusOr<LoadResult> LoadOn(const std::string& device, const std::string& name,
                              const std::string& file, bool acquire = false) {
    LoadRequest request = RequestFor(name, file);
    request.device = device;
    request.acquire = acquire;
    return store_->Load(request, {});
  }

  void LoseFirst() {
    hardware_[0]->Lose();
    Tick();
  }

  void Tick() {
    store_->Tick();
    for (const auto& device : store_->devices()) device->Validate();
  }
};

TEST_F(DeviceLossTest, ItsLeasesEndWithTheReasonAndOthersGoOn) {
  const StatusOr<LoadResult> lost = LoadOn("host:0", "a", "a", /*acquire=*/true);
  const StatusOr<LoadResult> kept = LoadOn("host:1", "b", "b", /*acquire=*/true);
  ASSERT_TRUE(lost.ok() && kept.ok());
  LoseFirst();

  const std::vector<RecordedEvents::LostEvent> events = events_.TakeLost();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].session, session_);
  EXPECT_EQ(events[0].lease, lost->lease->id);
  EXPECT_EQ(events[0].reason, Reason::kDeviceLost);
  EXPECT_FALSE(store_->devices()[0]->IsLive(session_, lost->lease->id));
  EXPECT_TRUE(store_->devices()[1]->IsLive(session_, kept->lease->id));
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().counters.leases_lost, 1U);
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().counters.leases_expired, 0U);
}

TEST_F(DeviceLossTest, ItIsToldOnce) {
  ASSERT_TRUE(LoadOn("host:0", "a", "a", /*acquire=*/true).ok());
  LoseFirst();
  ASSERT_EQ(events_.TakeLost().size(), 1U);
  Tick();
  EXPECT_TRUE(events_.TakeLost().empty());
}

TEST_F(DeviceLossTest, ItsBytesLeaveTheCapacity) {
  ASSERT_TRUE(LoadOn("host:0", "a", "a").ok());
  const Ledger other = LedgerNow(1);
  const Bytes capacity = LedgerNow(0).capacity;
  LoseFirst();
  Ledger gone;
  gone.lost = capacity;
  EXPECT_EQ(LedgerNow(0), gone);
  EXPECT_EQ(LedgerNow(1), other);
}

TEST_F(DeviceLossTest, ItsModelsAreLostAndGrantedToNobody) {
  ASSERT_TRUE(LoadOn("host:0", "a", "a").ok());
  ASSERT_TRUE(LoadOn("host:0", "retained", "b").ok());
  ASSERT_TRUE(Unload("retained").ok());
  LoseFirst();
  for (const ModelView& model : store_->Models()) EXPECT_EQ(model.state, RegionState::kLost);
  EXPECT_EQ(store_->Models().size(), 2U);
  const auto refused = [](const Status& status) { return HasReason(status, Reason::kDeviceLost); };
  EXPECT_TRUE(refused(store_->Acquire(session_, "a", "", {}, "").status()));
  EXPECT_TRUE(refused(LoadOn("host:0", "a", "a").status()));
  EXPECT_TRUE(refused(LoadOn("host:0", "retained", "b").status()));
  EXPECT_TRUE(refused(store_->Unload("a", {}, "host:0").status()));
}

TEST_F(DeviceLossTest, AModelThatIsWantedAgainComesOnlineElsewhere) {
  ASSERT_TRUE(LoadOn("host:0", "a", "a").ok());
  LoseFirst();
  const StatusOr<LoadResult> loaded = Load("a", "a");
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->model.device, "host:1");
  EXPECT_EQ(loaded->reuse, Reuse::kFresh);
  const StatusOr<GrantedLease> lease = store_->Acquire(session_, "a", "", {}, "");
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_EQ(lease->device, "host:1");
}

TEST_F(DeviceLossTest, NobodyWaitsForALoadThatHangsInIt) {
  hardware_[0]->HoldCreations(true);
  std::future<StatusOr<LoadResult>> running =
      std::async(std::launch::async, [&] { return LoadOn("host:0", "a", "a"); });
  ASSERT_TRUE(hardware_[0]->AwaitHeldCreation());
  LoseFirst();
  EXPECT_TRUE(HasReason(running.get().status(), Reason::kDeviceLost));
  Tick();
  // The driver answers after all: nothing of it comes back to life.
  hardware_[0]->HoldCreations(false);
  store_->devices()[0]->WaitUntilQuiet();
  Tick();
  EXPECT_TRUE(store_->Models().empty());
}

TEST_F(DeviceLossTest, AnAdoptionThatWasUnderWayLeavesALostModel) {
  ASSERT_TRUE(LoadOn("host:0", "a", "a").ok());
  ASSERT_TRUE(Unload("a").ok());
  files_.Hold("a2");
  std::future<StatusOr<LoadResult>> running =
      std::async(std::launch::async, [&] { return LoadOn("host:0", "a2", "a2"); });
  files_.AwaitHeldRead();
  LoseFirst();
  EXPECT_TRUE(HasReason(running.get().status(), Reason::kDeviceLost));
  files_.Release();
  store_->devices()[0]->WaitUntilQuiet();
  Tick();
  ASSERT_EQ(store_->Models().size(), 1U);
  EXPECT_EQ(store_->Models()[0].state, RegionState::kLost);
}

TEST_F(DeviceLossTest, AClientThatUnmapsOrEndsAfterwardsIsHeard) {
  const StatusOr<LoadResult> lost = LoadOn("host:0", "a", "a", /*acquire=*/true);
  ASSERT_TRUE(lost.ok());
  const StatusOr<ShareExport> share = Fetch(session_, lost->lease->id);
  ASSERT_TRUE(share.ok());
  LoseFirst();
  EXPECT_TRUE(store_->Unmapped(session_, share->share.serial));
  Tick();
  store_->EndSession(session_);
  Tick();
}

}  // namespace
}  // namespace tenure
