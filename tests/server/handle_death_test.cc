// The end of clients: by death, by hanging up, by both.

#include <gmock/gmock.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/core/device/process_view.h"
#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

using ::testing::ElementsAre;

class HandleDeathTest : public HandleTest {
 protected:
  // A client with a lease on the model "m" of two Segments, and all of it mapped.
  void JoinAndFetch(ClientProcess& client) {
    Load("m", 2);
    session_ = client.Join(options_.path);
    lease_ = Acquire(session_, "m");
    client.Fetch(lease_);
    ASSERT_TRUE(store_->Unload("m", {}, "").ok());
    ASSERT_EQ(LedgerNow().cached, Bytes(0));
  }
  // Everything it had is free again, without any clock having moved.
  void ExpectAllIsBack() {
    EXPECT_TRUE(Ends(session_));
    store_->Tick();
    EXPECT_EQ(LedgerNow().cached, kSegment * 2);
    EXPECT_EQ(store_->UseBy(session_), RegionUse{});
  }

  ClientProcess client_;
  SessionId session_;
  LeaseId lease_;
};

// Field case 16.
TEST_F(HandleDeathTest, AKilledClientsMemoryIsBackAndNobodyElseNotices) {
  Start();
  JoinAndFetch(client_);
  HandleClient other = Connect();
  other.Join();
  client_.Kill();
  ExpectAllIsBack();
  EXPECT_EQ(registry_.clients_lost(), 1);
  EXPECT_TRUE(other.IsServed());
}

TEST_F(HandleDeathTest, AClientKilledBeforeItFetchedLeavesNothing) {
  Start();
  Load("m", 2);
  session_ = client_.Join(options_.path);
  Acquire(session_, "m");
  ASSERT_TRUE(store_->Unload("m", {}, "").ok());
  client_.Kill();
  ExpectAllIsBack();
  EXPECT_EQ(registry_.clients_lost(), 1);
}

// Field case 16: a child that inherited the socket does not keep the session.
TEST_F(HandleDeathTest, AForkedChildThatHoldsTheSocketKeepsNothing) {
  Start();
  JoinAndFetch(client_);
  client_.Fork();
  client_.Kill();
  ExpectAllIsBack();
  EXPECT_EQ(registry_.clients_lost(), 1);
}

TEST_F(HandleDeathTest, ALivingProcessThatHungUpStaysInQuarantineUntilItsDeath) {
  options_.death_grace = Duration::zero();
  Start();
  JoinAndFetch(client_);
  client_.HangUp();
  EXPECT_TRUE(Reaches(session_, SessionState::kGone));
  EXPECT_TRUE(Eventually([&] { return store_->UseBy(session_).quarantined_shares == 1; }));
  EXPECT_FALSE(IsLive(session_, lease_));
  Pass(std::chrono::hours(1));
  Pass(std::chrono::hours(1));
  EXPECT_EQ(LedgerNow().cached, Bytes(0));
  EXPECT_EQ(registry_.Find(session_)->state, SessionState::kGone);
  client_.Kill();
  ExpectAllIsBack();
  EXPECT_EQ(registry_.clients_lost(), 1);
}

TEST_F(HandleDeathTest, ALivingProcessThatHungUpWithNothingMappedIsForgotten) {
  options_.death_grace = std::chrono::milliseconds(20);
  Start();
  session_ = client_.Join(options_.path);
  client_.HangUp();
  EXPECT_TRUE(Ends(session_));
  EXPECT_EQ(registry_.clients_lost(), 0);
}

TEST_F(HandleDeathTest, LastWordsCountThoughTheProcessHasEnded) {
  Start();
  session_ = client_.Join(options_.path);
  client_.Leave();
  EXPECT_TRUE(Ends(session_));
  EXPECT_EQ(registry_.clients_lost(), 0);
}

TEST_F(HandleDeathTest, ADeafSessionEndsWithItsProcess) {
  Start();
  JoinAndFetch(client_);
  client_.Offend();
  EXPECT_TRUE(Reaches(session_, SessionState::kDeaf));
  client_.Kill();
  ExpectAllIsBack();
  EXPECT_EQ(registry_.clients_lost(), 1);
}

TEST_F(HandleDeathTest, TwoHundredSessionsLeaveNoFdsBehind) {
  options_.death_grace = std::chrono::milliseconds(1);
  Start();
  Load("m", 2);
  const size_t before = OpenFds();
  for (int i = 0; i < 200; ++i) {
    HandleClient client = Connect();
    client.Join();
    std::vector<UniqueFd> fds;
    const uint64_t share = client.FetchAll(Acquire(client.session(), "m"), fds);
    client.SayUnmapped({share});
    if (i % 2 == 0) client.SayGoodbye();
    if (i % 3 == 0) client.SayBytes("");
  }
  EXPECT_TRUE(Eventually([&] { return registry_.Sessions().empty(); }));
  EXPECT_TRUE(Eventually([&] { return OpenFds() <= before; }));
  EXPECT_EQ(store_->devices()[0]->TakeSnapshot().live_leases, 0);
  EXPECT_THAT(registry_.CountByState(), ElementsAre(0, 0, 0));
}

}  // namespace
}  // namespace tenure
