// The pools of a session, with a daemon that says what the test wants.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "client/cpp/handle_session.h"
#include "tenure/errors.h"
#include "tests/client/eventually.h"
#include "tests/client/handle_peer.h"
#include "tests/support/temp_dir.h"

namespace tenure::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kBytes = uint64_t{64} << 10;
constexpr uint64_t kPool = 7;

UniqueFd MemoryOf(uint64_t bytes) {
  UniqueFd fd(memfd_create("segment", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

PoolSpec Spec(Duration ttl = seconds(60)) {
  return {.pool_id = kPool,
          .device = {.name = "host:0"},
          .range_bytes = 1024 * kBytes,
          .segment_bytes = kBytes,
          .ttl = ttl};
}

std::vector<uint64_t> Offsets(uint64_t count) {
  std::vector<uint64_t> offsets;
  for (uint64_t i = 0; i < count; ++i) offsets.push_back(i * kBytes);
  return offsets;
}

// Remembers what it was told.
class Listener final : public PoolListener {
 public:
  void OnMemoryWanted(uint64_t bytes) override { wanted += bytes; }
  void OnPoolLost(const std::string& reason) override {
    const std::lock_guard lock(mutex);
    lost.push_back(reason);
  }
  void OnSweep(Instant) override { ++sweeps; }

  std::vector<std::string> Lost() {
    const std::lock_guard lock(mutex);
    return lost;
  }

  std::atomic<uint64_t> wanted = 0;
  std::atomic<uint64_t> sweeps = 0;
  std::mutex mutex;
  std::vector<std::string> lost;  // guarded by mutex
};

class PoolSessionTest : public ::testing::Test {
 protected:
  PoolSessionTest() {
    peer_.OfferPool(kBytes, [] { return MemoryOf(kBytes); });
    session_->SetGiveBack([this](uint64_t, const std::vector<uint64_t>& offsets) {
      const std::lock_guard lock(mutex_);
      given_back_.insert(given_back_.end(), offsets.begin(), offsets.end());
    });
  }

  absl::StatusOr<std::shared_ptr<PoolMapping>> Map(std::vector<uint64_t> offsets,
                                                   Duration within = seconds(20)) {
    return session_->MapSegments(Spec(), std::move(offsets), Deadline(within));
  }
  std::vector<uint64_t> GivenBack() {
    const std::lock_guard lock(mutex_);
    return given_back_;
  }
  size_t CountOf(const std::string& start) {
    const std::vector<std::string> heard = peer_.Heard();
    return static_cast<size_t>(std::count_if(
        heard.begin(), heard.end(), [&](const auto& word) { return word.starts_with(start); }));
  }
  bool HeardEventually(const std::string& what, size_t times = 1) {
    return Eventually([&] { return CountOf(what) == times; });
  }
  // Nothing of a pool is mapped, and every share that was sent was told to be gone.
  void ExpectNothingIsMapped(size_t shares) {
    EXPECT_TRUE(HeardEventually("unmapped", shares)) << CountOf("unmapped");
    session_.reset();
    EXPECT_EQ(survivors_->MakeReport().surviving.memories_size(), 0);
  }
  bool IsServed() {
    const size_t before = peer_.heartbeats();
    return Eventually([&] { return peer_.heartbeats() > before + 2; }) && session_->Alive().ok();
  }

  const TempDir temp_;
  HandlePeer peer_{temp_ / "handle.sock"};
  const std::shared_ptr<Survivors> survivors_ = std::make_shared<Survivors>();
  std::unique_ptr<HandleSession> session_ =
      *HandleSession::Open(temp_ / "handle.sock", "test", "1", Deadline(seconds(10)), survivors_);
  std::mutex mutex_;
  std::vector<uint64_t> given_back_;  // guarded by mutex_
};

TEST_F(PoolSessionTest, SegmentsComeInBatchesOfSixtyFourAndLieAtTheirOffsets) {
  const auto mapping = Map(Offsets(130));
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_TRUE(HeardEventually("ack", 3));
  EXPECT_THAT(peer_.Heard(), ElementsAre("fetch-pool 7 64", "ack 64 64", "fetch-pool 7 64",
                                         "ack 128 64", "fetch-pool 7 2", "ack 130 2"));
  for (uint64_t i = 0; i < 130; ++i) (*mapping)->base()[i * kBytes] = std::byte{1};
  // Beside what the pool has already.
  const auto more = Map({500 * kBytes});
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(*more, *mapping);
  (*more)->base()[500 * kBytes] = std::byte{1};
  session_->UnmapSegments(kPool, {0, 500 * kBytes});
  EXPECT_TRUE(HeardEventually("unmapped", 2));
  EXPECT_THAT(peer_.Heard(), Contains("unmapped 1"));
  EXPECT_THAT(peer_.Heard(), Contains("unmapped 131"));
  EXPECT_THAT(GivenBack(), IsEmpty());
}

TEST_F(PoolSessionTest, APoolWithoutSegmentsIsARangeOnly) {
  const auto mapping = Map({});
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ((*mapping)->size_bytes(), 1024 * kBytes);
  EXPECT_THAT(peer_.Heard(), IsEmpty());
}

TEST_F(PoolSessionTest, ARefusedBatchGivesEverythingBack) {
  peer_.EditPoolBatches([](v1::DaemonPacket& packet, std::vector<UniqueFd>& fds) {
    if (packet.pool_batch().segments(0).offset() == 0) return true;
    fds.clear();
    packet.Clear();
    packet.mutable_pool_refused()->set_pool_id(kPool);
    packet.mutable_pool_refused()->set_reason("LEASE_EXPIRED");
    return true;
  });
  EXPECT_EQ(ErrorReason(Map(Offsets(100)).status()), "LEASE_EXPIRED");
  EXPECT_EQ(GivenBack().size(), 36u);
  EXPECT_TRUE(IsServed());
  ExpectNothingIsMapped(64);
}

TEST_F(PoolSessionTest, FdsThatAreLostOnTheirWayGiveEverythingBack) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  peer_.EditPoolBatches([&](v1::DaemonPacket&, std::vector<UniqueFd>& fds) {
    rlimit tight = before;
    tight.rlim_cur = static_cast<rlim_t>(fds[8].get());
    setrlimit(RLIMIT_NOFILE, &tight);
    return true;
  });
  const absl::Status lost = Map(Offsets(64)).status();
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(lost.code(), absl::StatusCode::kResourceExhausted) << lost;
  EXPECT_THAT(GivenBack(), IsEmpty());
  peer_.EditPoolBatches(nullptr);
  EXPECT_TRUE(Map({0}).ok());
  session_->UnmapSegments(kPool, {0});
  ExpectNothingIsMapped(65);
}

TEST_F(PoolSessionTest, ABatchThatWasNotAskedForEndsTheSession) {
  const std::vector<std::function<void(v1::PoolBatch&)>> faults = {
      [](v1::PoolBatch& batch) { batch.mutable_segments(1)->set_offset(5 * kBytes); },
      [](v1::PoolBatch& batch) { batch.mutable_segments(1)->set_size(2 * kBytes); },
      [](v1::PoolBatch& batch) { batch.mutable_segments()->RemoveLast(); },
      [](v1::PoolBatch& batch) { batch.clear_segments(); },
      [](v1::PoolBatch& batch) { batch.set_pool_id(8); },
  };
  for (size_t i = 0; i < faults.size(); ++i) {
    const std::string path = temp_ / ("faulty" + std::to_string(i));
    HandlePeer peer(path);
    peer.OfferPool(kBytes, [] { return MemoryOf(kBytes); });
    peer.EditPoolBatches([&](v1::DaemonPacket& packet, std::vector<UniqueFd>&) {
      faults[i](*packet.mutable_pool_batch());
      return true;
    });
    const auto session = *HandleSession::Open(path, "test", "1", Deadline(seconds(10)),
                                              std::make_shared<Survivors>());
    const absl::Status refused =
        session->MapSegments(Spec(), Offsets(2), Deadline(seconds(20))).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << i << refused;
    EXPECT_EQ(ErrorReason(session->Alive()), "DAEMON_GONE") << i;
  }
}

TEST_F(PoolSessionTest, ABatchWithTooFewFdsGivesEverythingBack) {
  peer_.EditPoolBatches([](v1::DaemonPacket&, std::vector<UniqueFd>& fds) {
    fds.pop_back();
    return true;
  });
  EXPECT_FALSE(Map(Offsets(3)).ok());
  ExpectNothingIsMapped(3);
}

TEST_F(PoolSessionTest, AFileThatIsShorterThanSaidGivesEverythingBack) {
  int made = 0;
  peer_.OfferPool(kBytes, [&] { return MemoryOf(++made == 3 ? kBytes / 2 : kBytes); });
  const absl::Status refused = Map(Offsets(70)).status();
  EXPECT_EQ(ErrorReason(refused), "PROTOCOL") << refused;
  EXPECT_EQ(GivenBack().size(), 6u);
  EXPECT_TRUE(IsServed());
  ExpectNothingIsMapped(64);
}

// The daemon would wait for them as long as the session lives.
TEST_F(PoolSessionTest, WhoGaveUpWaitingHasEverythingGivenBack) {
  std::atomic<bool> hold = true;
  peer_.EditPoolBatches([&](v1::DaemonPacket&, std::vector<UniqueFd>&) {
    while (hold) usleep(1000);
    return true;
  });
  const absl::Status late = Map(Offsets(100), milliseconds(50)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
  hold = false;
  // Those of the batch that was on its way are unmapped, the others go back by their offsets.
  EXPECT_TRUE(HeardEventually("unmapped", 64));
  EXPECT_TRUE(Eventually([&] { return GivenBack().size() == 36; }));
  ExpectNothingIsMapped(64);
}

TEST_F(PoolSessionTest, WhoIsCancelledDoesNotWaitForTheDaemon) {
  std::atomic<bool> hold = true;
  std::atomic<bool> asked = false;
  peer_.EditPoolBatches([&](v1::DaemonPacket&, std::vector<UniqueFd>&) {
    asked = true;
    while (hold) usleep(1000);
    return true;
  });
  std::stop_source stop;
  auto status = std::async(std::launch::async, [&] {
    return session_->MapSegments(Spec(), Offsets(2), Deadline(seconds(20)), stop.get_token())
        .status();
  });
  EXPECT_TRUE(Eventually([&] { return asked.load(); }));
  stop.request_stop();
  EXPECT_EQ(status.wait_for(seconds(10)), std::future_status::ready);
  hold = false;
  EXPECT_EQ(status.get().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(Eventually([&] { return CountOf("unmapped") + GivenBack().size() == 2; }));
}

TEST_F(PoolSessionTest, WhatTheDaemonWantsBackIsUnmappedAndOnlyOnce) {
  ASSERT_TRUE(Map(Offsets(4)).ok());
  v1::DaemonPacket recall;
  recall.mutable_pool_recall()->set_pool_id(kPool);
  for (const uint64_t serial : {2u, 3u, 99u}) {
    recall.mutable_pool_recall()->add_share_serials(serial);
  }
  peer_.Say(recall);
  EXPECT_TRUE(HeardEventually("unmapped", 2));
  session_->UnmapSegments(kPool, Offsets(4));
  EXPECT_TRUE(HeardEventually("unmapped", 4));
  EXPECT_TRUE(IsServed());
  EXPECT_EQ(CountOf("unmapped"), 4u);
}

TEST_F(PoolSessionTest, ListenersHearWhatIsSaidOfTheirPoolAndTheTimeThatPasses) {
  ASSERT_TRUE(Map(Offsets(1)).ok());
  const auto listener = std::make_shared<Listener>();
  EXPECT_FALSE(session_->Listen(8, listener));
  ASSERT_TRUE(session_->Listen(kPool, listener));
  v1::DaemonPacket packet;
  packet.mutable_memory_wanted()->set_pool_id(8);
  packet.mutable_memory_wanted()->set_bytes(1);
  peer_.Say(packet);
  packet.mutable_memory_wanted()->set_pool_id(kPool);
  packet.mutable_memory_wanted()->set_bytes(1000);
  peer_.Say(packet);
  EXPECT_TRUE(Eventually([&] { return listener->wanted == 1000; }));
  EXPECT_TRUE(Eventually([&] { return listener->sweeps > 1; }));
  packet.mutable_pool_lost()->set_pool_id(kPool);
  packet.mutable_pool_lost()->set_reason("LEASE_EXPIRED");
  peer_.Say(packet);
  EXPECT_TRUE(Eventually([&] { return !listener->Lost().empty(); }));
  EXPECT_THAT(listener->Lost(), ElementsAre("LEASE_EXPIRED"));
  EXPECT_FALSE(session_->Listen(kPool, std::make_shared<Listener>()));
  // What is mapped of a lost pool stays until its user is done.
  EXPECT_EQ(CountOf("unmapped"), 0u);
  session_->UnmapSegments(kPool, {0});
  EXPECT_TRUE(HeardEventually("unmapped 1"));
}

TEST_F(PoolSessionTest, APoolOfWhichTheDaemonSaysNothingForItsTimeToLiveIsLost) {
  ASSERT_TRUE(session_->MapSegments(Spec(milliseconds(200)), {0}, Deadline(seconds(20))).ok());
  const auto listener = std::make_shared<Listener>();
  ASSERT_TRUE(session_->Listen(kPool, listener));
  // While it answers, the pool lives on.
  EXPECT_TRUE(Eventually([&] { return listener->sweeps >= 2; }));
  EXPECT_THAT(listener->Lost(), IsEmpty());
  peer_.IgnoreHeartbeats();
  EXPECT_TRUE(Eventually([&] { return !listener->Lost().empty(); }));
  EXPECT_THAT(listener->Lost(), ElementsAre("HEARTBEAT_MISSED"));
  EXPECT_FALSE(session_->Listen(kPool, listener));
}

// The daemon, which waits for longer, may have kept it: it says so with the next grant.
TEST_F(PoolSessionTest, AnOverduePoolInWhichTheDaemonGrantsAnewGoesOn) {
  PoolSpec pool = Spec(milliseconds(200));
  ASSERT_TRUE(session_->MapSegments(pool, {0}, Deadline(seconds(20))).ok());
  const auto before = std::make_shared<Listener>();
  ASSERT_TRUE(session_->Listen(kPool, before));
  peer_.IgnoreHeartbeats();
  ASSERT_TRUE(Eventually([&] { return !before->Lost().empty(); }));
  pool.granted_at = Now() + seconds(60);
  ASSERT_TRUE(session_->MapSegments(pool, {kBytes}, Deadline(seconds(20))).ok());
  const auto after = std::make_shared<Listener>();
  EXPECT_TRUE(session_->Listen(kPool, after));
  EXPECT_THAT(after->Lost(), IsEmpty());
}

TEST_F(PoolSessionTest, TheEndOfTheSessionIsTheEndOfItsPoolsAndWhatIsMappedSurvives) {
  const auto mapping = Map(Offsets(3));
  ASSERT_TRUE(mapping.ok());
  const auto listener = std::make_shared<Listener>();
  ASSERT_TRUE(session_->Listen(kPool, listener));
  const auto surviving = [&] {
    uint64_t bytes = 0;
    const Survivors::Report report = survivors_->MakeReport();
    for (const auto& each : report.surviving.memories()) bytes += each.runtime_bytes();
    return bytes;
  };
  peer_.HangUp();
  EXPECT_TRUE(Eventually([&] { return !listener->Lost().empty(); }));
  EXPECT_THAT(listener->Lost(), ElementsAre("DAEMON_GONE"));
  EXPECT_TRUE(Eventually([&] { return surviving() == 3 * kBytes; }));
  (*mapping)->base()[0] = std::byte{1};
  EXPECT_EQ(ErrorReason(Map({9 * kBytes}).status()), "DAEMON_GONE");
  session_->UnmapSegments(kPool, {0, kBytes});
  EXPECT_TRUE(Eventually([&] { return surviving() == kBytes; }));
  (*mapping)->base()[2 * kBytes] = std::byte{1};
}

TEST_F(PoolSessionTest, ASessionThatEndsWhileMemoryIsOnItsWayTellsWhoWaits) {
  peer_.EditPoolBatches([](v1::DaemonPacket&, std::vector<UniqueFd>&) { return false; });
  auto first = std::async(std::launch::async, [&] { return Map(Offsets(1)).status(); });
  auto second = std::async(std::launch::async, [&] { return Map({kBytes}).status(); });
  EXPECT_TRUE(HeardEventually("fetch-pool"));
  peer_.HangUp();
  EXPECT_FALSE(first.get().ok());
  EXPECT_FALSE(second.get().ok());
}

}  // namespace
}  // namespace tenure::client
