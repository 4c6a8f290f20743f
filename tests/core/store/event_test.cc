#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/store/store_fixture.h"

// What a store records of what happens.

namespace tenure {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;

class EventTest : public StoreTest {
 protected:
  // "KIND subject detail" of each since the last call.
  std::vector<std::string> Happened() {
    std::vector<std::string> lines;
    for (const Event& event : store_->event_log().After(seen_, EventLog::kKept)) {
      EXPECT_EQ(event.sequence, seen_ + 1);
      seen_ = event.sequence;
      std::string line(EventKindName(event.kind));
      for (const std::string& part : {event.subject, event.detail}) {
        if (!part.empty()) line += " " + part;
      }
      lines.push_back(line);
      last_ = event;
    }
    return lines;
  }

  uint64_t seen_ = 0;
  Event last_;
};

TEST_F(EventTest, TellsTheLifeOfAModel) {
  Start();
  WriteModel("a", {KiB(20)}, 1);
  WriteModel("b", {KiB(20)}, 2);
  EXPECT_THAT(Happened(), ElementsAre("SESSION_OPENED tester/0"));
  const StatusOr<LoadResult> a = LoadLeased("a", "a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_THAT(Happened(), ElementsAre("LOADED a@1 FRESH", "LEASE_GRANTED a@1"));
  EXPECT_EQ(last_.session, session_);
  EXPECT_EQ(last_.bytes, KiB(20));
  EXPECT_EQ(last_.ledger, LedgerNow());
  ASSERT_TRUE(store_->Release(session_, a->lease->id).ok());
  ASSERT_TRUE(Unload("a").ok());
  EXPECT_THAT(Happened(), ElementsAre("LEASE_RELEASED a@1", "OFFLINE a@1"));
  EXPECT_EQ(last_.ledger, LedgerNow());
  ASSERT_TRUE(Load("b", "b").ok());
  EXPECT_THAT(Happened(), ElementsAre("LOADED b@1 ADOPTED"));
  ASSERT_TRUE(Unload("b").ok());
  clock_.Advance(seconds(61));
  store_->Tick();
  EXPECT_THAT(Happened(), ElementsAre("OFFLINE b@1", "RECLAIMED b@1 expired"));
  EXPECT_EQ(last_.ledger, LedgerNow());
  store_->EndSession(session_);
  EXPECT_THAT(Happened(), ElementsAre("SESSION_ENDED"));
}

TEST_F(EventTest, TellsWhatWentWrong) {
  Start();
  WriteModel("huge", {KiB(300)}, 1);
  WriteModel("a", {KiB(20)}, 2);
  Happened();
  EXPECT_FALSE(Load("huge", "huge").ok());
  EXPECT_THAT(Happened(), ElementsAre("LOAD_FAILED huge CAPACITY"));
  EXPECT_EQ(last_.bytes, KiB(300));
  ASSERT_TRUE(LoadLeased("a", "a").ok());
  Happened();
  clock_.Advance(seconds(31));
  store_->Tick();
  EXPECT_THAT(Happened(), ElementsAre("LEASE_EXPIRED a@1"));
  hardware_[0]->Lose();
  store_->Tick();
  const std::vector<std::string> lost = Happened();
  EXPECT_TRUE(std::any_of(lost.begin(), lost.end(), [](const std::string& line) {
    return line.starts_with("DEVICE_LOST ");
  }));
}

TEST_F(EventTest, TellsOfAnOperatorsWordOnce) {
  Start();
  Happened();
  store_->devices()[0]->SetCordoned(true);
  store_->devices()[0]->SetCordoned(true);
  EXPECT_THAT(Happened(), ElementsAre("CORDONED"));
  EXPECT_EQ(last_.device, "host:0");
  store_->devices()[0]->SetCordoned(false);
  EXPECT_THAT(Happened(), ElementsAre("UNCORDONED"));
}

TEST(RuntimeEventTest, TellsOfPoolsAndInOneEventOfAllThatIsWantedBack) {
  ManualClock clock;
  SmallDevice device("host:0", MiB(128));
  IdSequences ids;
  RecordedEvents heard;
  EventLog log;
  RuntimeStoreOptions options;
  options.capacity = MiB(64);
  options.segment_size = MiB(8);
  options.pool_ttl = seconds(10);
  options.event_log = &log;
  RuntimeStore store(device, options, clock, ids, heard);
  const SessionId holder(1);
  const SessionId other(2);
  for (const SessionId session : {holder, other}) store.OpenSession(session, {});
  const auto request = [](SessionId session, Bytes size) {
    return PoolRequest{.session = session, .wanted = std::vector<BufferSpec>{{.size = size}}};
  };

  const StatusOr<PoolGrant> grant = store.Acquire(request(holder, MiB(64)), {});
  ASSERT_TRUE(grant.ok()) << grant.status();
  EXPECT_FALSE(store.Acquire(request(other, MiB(65)), {}).ok());
  std::vector<Bytes> offsets;
  for (uint64_t i = 0; i < 8; ++i) offsets.push_back(MiB(8) * i);
  const auto exported = store.BeginExport(holder, grant->pool.id, offsets);
  ASSERT_TRUE(heard.AwaitPoolExported(**exported).ok());
  ASSERT_TRUE(store.EndExport(**exported, /*sent=*/true));
  ASSERT_TRUE(store.Release(holder, grant->buffers[0].id)->ok());
  clock.Advance(seconds(11));
  store.Tick();

  std::vector<std::pair<EventKind, Bytes>> happened;
  for (const Event& event : log.After(0, EventLog::kKept)) {
    EXPECT_EQ(event.arena, "runtime");
    happened.emplace_back(event.kind, event.bytes);
  }
  EXPECT_THAT(happened, ElementsAre(std::pair(EventKind::kPoolGrew, MiB(64)),
                                    std::pair(EventKind::kBuffersRefused, MiB(65)),
                                    std::pair(EventKind::kRecalled, MiB(64))));
}

TEST(EventLogTest, KeepsTheLastAndTellsFromWhereItIsAsked) {
  EventLog log;
  for (size_t i = 0; i < EventLog::kKept + 5; ++i) log.Record({.kind = EventKind::kLoaded});
  const uint64_t last = log.last();
  EXPECT_EQ(last, EventLog::kKept + 5);
  const std::vector<Event> all = log.After(0, 2 * EventLog::kKept);
  EXPECT_EQ(all.size(), EventLog::kKept);
  EXPECT_EQ(all.front().sequence, 6U);
  EXPECT_EQ(all.back().sequence, last);
  EXPECT_EQ(log.After(last - 3, 2).front().sequence, last - 2);
  EXPECT_EQ(log.After(last - 3, 2).size(), 2U);
  EXPECT_TRUE(log.After(last, 10).empty());
  EXPECT_TRUE(log.After(UINT64_MAX, 10).empty());
}

TEST(EventLogTest, EachKindHasANameOfItsOwn) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < kEventKinds; ++i) names.insert(EventKindName(static_cast<EventKind>(i)));
  EXPECT_EQ(names.size(), kEventKinds);
}

}  // namespace
}  // namespace tenure
