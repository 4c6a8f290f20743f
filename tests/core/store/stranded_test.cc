// Memory from before the start that clients still map.

#include "tests/core/store/store_fixture.h"

namespace tenure {
namespace {

using StrandedTest = StoreTest;

TEST_F(StrandedTest, IsNotFreeUntilItsHolderSaysSoOrEnds) {
  Start();
  store_->SetSurviving(session_, {{"host:0", KiB(200)}});
  EXPECT_EQ(LedgerNow().stranded, KiB(200));
  EXPECT_EQ(LedgerNow().free(), KiB(56));
  store_->devices()[0]->Validate();
  WriteModel("a", {KiB(100)}, 1);
  const StatusOr<LoadResult> refused = Load("a", "a");
  EXPECT_TRUE(HasReason(refused.status(), Reason::kCapacity));
  EXPECT_NE(std::string(refused.status().message()).find("stranded 200 KiB"), std::string::npos);

  store_->SetSurviving(session_, {{"host:0", KiB(40)}});
  EXPECT_TRUE(Load("a", "a").ok());
  EXPECT_EQ(LedgerNow().stranded, KiB(40));
  store_->EndSession(session_);
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
  store_->devices()[0]->Validate();
}

TEST_F(StrandedTest, OfSeveralSessionsAddsUp) {
  Start();
  const SessionId other = OpenSession("other");
  store_->SetSurviving(session_, {{"host:0", KiB(60)}});
  store_->SetSurviving(other, {{"host:0", KiB(40)}});
  EXPECT_EQ(LedgerNow().stranded, KiB(100));
  store_->CloseSession(other);  // its process may live
  EXPECT_EQ(LedgerNow().stranded, KiB(100));
  store_->EndSession(other);
  EXPECT_EQ(LedgerNow().stranded, KiB(60));
}

TEST_F(StrandedTest, ClaimsBeyondTheDeviceOnlyLeaveNothingFree) {
  Start();
  store_->SetSurviving(session_, {{"host:0", Bytes(UINT64_MAX)}, {"gpu:9", KiB(1)}});
  store_->SetSurviving(OpenSession("other"), {{"host:0", Bytes(UINT64_MAX)}});
  EXPECT_EQ(LedgerNow().stranded, LedgerNow().capacity);
  EXPECT_EQ(LedgerNow().free(), Bytes(0));
  store_->devices()[0]->Validate();
}

TEST_F(StrandedTest, OfAnEndedSessionIsNotTaken) {
  Start();
  store_->EndSession(session_);
  store_->SetSurviving(session_, {{"host:0", KiB(60)}});
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
}

TEST_F(StrandedTest, IsNotTakenOffACapacityThatWasMeasuredWithoutIt) {
  DeviceStoreOptions options = DefaultOptions();
  options.capacity_includes_survivors = false;
  Start(options);
  store_->SetSurviving(session_, {{"host:0", KiB(60)}});
  EXPECT_EQ(LedgerNow().stranded, Bytes(0));
}

}  // namespace
}  // namespace tenure
