#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using std::chrono::seconds;

class ReuseTest : public StoreTest {};

TEST_F(ReuseTest, TheFirstLoadCreatesEverySegment) {
  Start();
  WriteModel("a", {KiB(20), KiB(3)}, 1);
  const StatusOr<LoadResult> a = Load("a", "a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->reuse, Reuse::kFresh);
  EXPECT_EQ(a->copied, KiB(23));
  EXPECT_EQ(a->segments_created, 2U);  // 16 KiB and 8 KiB
  EXPECT_EQ(a->model.state, RegionState::kActive);
  EXPECT_EQ(a->model.revision, Revision(1));
  EXPECT_EQ(Backend().segments_created, 2U);
  EXPECT_EQ(LedgerNow().idle, KiB(23));
  EXPECT_EQ(LedgerNow().padding, KiB(1));
}

TEST_F(ReuseTest, TheSameContentUnderTheSameNameIsResident) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(Load("a", "a").ok());
  const StatusOr<LoadResult> again = Load("a", "a");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->reuse, Reuse::kResident);
  EXPECT_EQ(again->copied, Bytes(0));
  EXPECT_EQ(again->model.revision, Revision(1));
}

TEST_F(ReuseTest, TheSameContentUnderAnotherNameHasARegionOfItsOwn) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  const StatusOr<LoadResult> one = Load("one", "a");
  const StatusOr<LoadResult> two = Load("two", "a");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->model.region, two->model.region);
}

TEST_F(ReuseTest, RevivingCopiesNothingAndKeepsTheGeneration) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  const StatusOr<LoadResult> first = Load("a", "a");
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(Unload("a").ok());
  const uint64_t read = files_.payload_bytes();
  const StatusOr<LoadResult> back = Load("a", "a");
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->reuse, Reuse::kRevived);
  EXPECT_EQ(back->model.region, first->model.region);
  EXPECT_EQ(back->model.generation, first->model.generation);
  EXPECT_EQ(back->model.revision, first->model.revision);
  EXPECT_EQ(files_.payload_bytes(), read);
}

TEST_F(ReuseTest, AnAdoptedHandOverKeepsSegmentsAndAsksTheBackendForNothing) {
  Start();
  WriteModel("a", {KiB(20), KiB(30)}, 1);
  WriteModel("b", {KiB(20), KiB(30)}, 2);
  const StatusOr<LoadResult> a = LoadLeased("a", "a");
  ASSERT_TRUE(a.ok());
  const std::vector<ino_t> inodes = InodesOf(session_, a->lease->id);
  ASSERT_TRUE(store_->Release(session_, a->lease->id).ok());
  ASSERT_TRUE(Unload("a").ok());
  const BackendCounters before = Backend();

  const StatusOr<LoadResult> b = LoadLeased("b", "b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->reuse, Reuse::kAdopted);
  EXPECT_EQ(b->model.region, a->model.region);
  EXPECT_EQ(b->model.generation.value(), a->model.generation.value() + 1);
  EXPECT_EQ(Backend().segments_created, before.segments_created);
  EXPECT_EQ(Backend().segments_destroyed, before.segments_destroyed);
  EXPECT_EQ(Backend().exports, before.exports);
  EXPECT_EQ(InodesOf(session_, b->lease->id), inodes);
  EXPECT_FALSE(store_->GetModel("a", {}, "").ok());
}

TEST_F(ReuseTest, AWiderArchitectureRecyclesWhatFitsAndCreatesOnlyWhatIsMissing) {
  Start();
  WriteModel("narrow", {KiB(16), KiB(16), KiB(8)}, 1);
  WriteModel("wide", {KiB(16), KiB(16), KiB(16), KiB(8)}, 2);
  DeviceStoreOptions options = DefaultOptions();
  const StatusOr<LoadResult> narrow = LoadLeased("narrow", "narrow");
  ASSERT_TRUE(narrow.ok());
  const std::vector<ino_t> old_inodes = InodesOf(session_, narrow->lease->id);
  ASSERT_EQ(old_inodes.size(), 3U);
  store_->EndSession(session_);
  session_ = OpenSession("next");
  ASSERT_TRUE(Unload("narrow").ok());
  Pass(options.retain_ttl + seconds(1));  // reclaimed into the cache
  EXPECT_EQ(LedgerNow().cached, KiB(40));

  const StatusOr<LoadResult> wide = LoadLeased("wide", "wide");
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->reuse, Reuse::kRecycled);
  EXPECT_EQ(wide->segments_reused, 3U);
  EXPECT_EQ(wide->segments_created, 1U);
  const std::vector<ino_t> inodes = InodesOf(session_, wide->lease->id);
  for (const ino_t inode : old_inodes) {
    EXPECT_NE(std::find(inodes.begin(), inodes.end(), inode), inodes.end());
  }
}

TEST_F(ReuseTest, NewContentOfANameIsANewRevisionAndTheOldOneDrains) {
  Start();
  WriteModel("v1", {KiB(20)}, 1);
  WriteModel("v2", {KiB(20)}, 2);
  const StatusOr<LoadResult> v1 = LoadLeased("m", "v1");
  ASSERT_TRUE(v1.ok());
  const StatusOr<LoadResult> v2 = Load("m", "v2");
  ASSERT_TRUE(v2.ok()) << v2.status();
  EXPECT_EQ(v2->model.revision, Revision(2));
  EXPECT_NE(v2->model.region, v1->model.region);
  EXPECT_EQ(store_->GetModel("m", Revision(1), "")->state, RegionState::kDraining);
  EXPECT_EQ(store_->GetModel("m", {}, "")->revision, Revision(2));
  ASSERT_TRUE(store_->Release(session_, v1->lease->id).ok());
  EXPECT_EQ(store_->GetModel("m", Revision(1), "")->state, RegionState::kRetained);
}

TEST_F(ReuseTest, ALoadOfDrainingContentBringsItBack) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  ASSERT_TRUE(LoadLeased("a", "a").ok());
  EXPECT_EQ(Unload("a")->state, RegionState::kDraining);
  const StatusOr<LoadResult> back = Load("a", "a");
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->reuse, Reuse::kResident);
  EXPECT_EQ(back->model.state, RegionState::kActive);
}

TEST_F(ReuseTest, AModelWithoutBytesLoadsWithoutMemory) {
  Start();
  WriteModel("empty", {Bytes(0)}, 1);
  const StatusOr<LoadResult> empty = LoadLeased("empty", "empty");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->model.region_bytes, Bytes(0));
  const StatusOr<ShareExport> share = Fetch(session_, empty->lease->id);
  ASSERT_TRUE(share.ok()) << share.status();
  EXPECT_EQ(share->segment_count, 0U);
}

// Placement: content before architecture before room.
TEST_F(ReuseTest, ALoadGoesWhereItsContentIsElseItsArchitectureElseWhereMostRoomIs) {
  Start(DefaultOptions(), 2);
  WriteModel("a", {KiB(40)}, 1);
  WriteModel("b", {KiB(40)}, 2);
  WriteModel("c", {KiB(60)}, 3);
  LoadRequest on_second = RequestFor("a", "a");
  on_second.device = "host:1";
  ASSERT_TRUE(store_->Load(on_second, {}).ok());
  EXPECT_EQ(Load("a", "a")->model.device, "host:1");  // resident there
  EXPECT_EQ(Load("c", "c")->model.device, "host:0");  // more room there
  ASSERT_TRUE(Unload("a").ok());
  const StatusOr<LoadResult> b = Load("b", "b");
  EXPECT_EQ(b->reuse, Reuse::kAdopted);
  EXPECT_EQ(b->model.device, "host:1");
  LoadRequest nowhere = RequestFor("a", "a");
  nowhere.device = "host:7";
  EXPECT_TRUE(HasReason(store_->Load(nowhere, {}).status(), Reason::kDeviceNotFound));
}

}  // namespace
}  // namespace tenure
