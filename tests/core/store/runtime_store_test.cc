#include "core/store/runtime_store.h"

#include <future>
#include <gtest/gtest.h>

#include "tests/core/store/store_fixture.h"
#include "tests/support/manual_clock.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A runtime arena of 64 MiB in Segments of 8 MiB, and a clock that the test moves.
class RuntimeStoreTest : public ::testing::Test {
 protected:
  static RuntimeStoreOptions DefaultOptions() {
    RuntimeStoreOptions options;
    options.capacity = MiB(64);
    options.segment_size = MiB(8);
    options.pool_ttl = seconds(10);
    return options;
  }

  void Start(RuntimeStoreOptions options = DefaultOptions()) {
    store_ = std::make_unique<RuntimeStore>(device_, options, clock_, ids_, events_);
    for (const SessionId session : {a_, b_}) {
      store_->OpenSession(session,
                          {.program = "client", .instance = std::to_string(session.value())});
    }
  }

  StatusOr<PoolGrant> Acquire(SessionId session, std::vector<BufferSpec> specs, Duration wait = {},
                              uint32_t priority = 0) {
    return store_->Acquire(
        {.session = session, .wanted = std::move(specs), .priority = priority, .wait = wait}, {});
  }
  // One Buffer of each size.
  std::vector<Buffer> AcquireAll(SessionId session, size_t count, Bytes size) {
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < count; ++i) {
      const StatusOr<PoolGrant> grant = Acquire(session, {{.size = size}});
      EXPECT_TRUE(grant.ok()) << grant.status();
      if (grant.ok()) buffers.push_back(grant->buffers.front());
    }
    return buffers;
  }
  StatusOr<PoolGrant> Grow(SessionId session, Bytes bytes, Duration wait = {}) {
    return store_->Acquire(
        {.session = session, .wanted = SegmentsSpec{.bytes = bytes}, .wait = wait}, {});
  }
  // The Segments at these offsets, as the Session gets them.
  PoolExport Fetch(SessionId session, PoolId pool, std::vector<Bytes> offsets) {
    const auto id = store_->BeginExport(session, pool, offsets);
    EXPECT_TRUE(id.has_value() && id->ok());
    StatusOr<PoolExport> batch = events_.AwaitPoolExported(**id);
    EXPECT_TRUE(batch.ok()) << batch.status();
    EXPECT_TRUE(store_->EndExport(**id, /*sent=*/true));
    return *std::move(batch);
  }
  void Pass(Duration span) {
    clock_.Advance(span);
    store_->Tick();
    store_->Validate();
  }
  Ledger LedgerNow() const { return store_->TakeSnapshot().ledger; }
  static std::string ValueOf(const Status& status, const std::string& key) {
    for (const auto& [name, value] : DetailOf(status).value_or(ErrorDetail{}).values) {
      if (name == key) return value;
    }
    return "";
  }

  ManualClock clock_;
  SmallDevice device_{"host:0", MiB(128)};
  IdSequences ids_;
  RecordedEvents events_;
  std::unique_ptr<RuntimeStore> store_;
  const SessionId a_{1};
  const SessionId b_{2};
};

// field case 1
TEST_F(RuntimeStoreTest, ARefusalForWantOfAHoleNamesItAndWhoLiesBesideIt) {
  Start();
  const std::vector<Buffer> large = AcquireAll(a_, 1, MiB(32));
  ASSERT_TRUE(store_->Release(a_, large[0].id)->ok());
  const std::vector<Buffer> small = AcquireAll(a_, 32, MiB(2));
  for (size_t i = 0; i < small.size(); i += 2) {
    ASSERT_TRUE(store_->Release(a_, small[i].id)->ok());
  }
  const Status refused = Acquire(a_, {{.size = MiB(24)}}).status();
  ASSERT_TRUE(HasReason(refused, Reason::kFragmented)) << refused;
  EXPECT_EQ(ValueOf(refused, "free_bytes"), std::to_string(MiB(32).count()));
  EXPECT_EQ(ValueOf(refused, "largest_free_bytes"), std::to_string(MiB(2).count()));
  EXPECT_EQ(ValueOf(refused, "largest_buffer_bytes"), std::to_string(MiB(2).count()));
  EXPECT_NE(ValueOf(refused, "neighbours"), "");
  EXPECT_EQ(LedgerNow().largest_free, MiB(2));
  EXPECT_EQ(LedgerNow().free(), MiB(32));
  for (size_t i = 1; i < small.size(); i += 2) {
    ASSERT_TRUE(store_->Release(a_, small[i].id)->ok());
  }
  EXPECT_EQ(LedgerNow().largest_free, MiB(64));
  EXPECT_TRUE(Acquire(a_, {{.size = MiB(24)}}).ok());
  store_->Validate();
}

TEST_F(RuntimeStoreTest, AllOfARequestIsGrantedOrNothing) {
  Start();
  const Status refused = Acquire(a_, {{.size = MiB(40)}, {.size = MiB(40)}}).status();
  EXPECT_TRUE(HasReason(refused, Reason::kCapacity)) << refused;
  EXPECT_EQ(LedgerNow().leased, Bytes(0));
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
}

TEST_F(RuntimeStoreTest, UnusedSegmentsOfOthersAreAskedForUnderPressureAndNoMoreThanNeeded) {
  Start();
  const StatusOr<PoolGrant> grant = Acquire(a_, {{.size = MiB(64)}});
  ASSERT_TRUE(grant.ok()) << grant.status();
  std::vector<Bytes> offsets;
  for (uint64_t i = 0; i < 8; ++i) offsets.push_back(MiB(8) * i);
  const PoolExport batch = Fetch(a_, grant->pool.id, offsets);
  ASSERT_TRUE(store_->Release(a_, grant->buffers[0].id)->ok());

  std::future<StatusOr<PoolGrant>> other =
      std::async(std::launch::async, [&] { return Acquire(b_, {{.size = MiB(20)}}); });
  const auto recalls = events_.AwaitPoolRecalls();
  ASSERT_EQ(recalls.size(), 1U);
  EXPECT_EQ(recalls[0].session, a_);
  ASSERT_EQ(recalls[0].shares.size(), 3U);
  for (const ShareSerial share : recalls[0].shares) EXPECT_TRUE(store_->Unmapped(a_, share));
  const StatusOr<PoolGrant> served = other.get();
  ASSERT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(device_.counters().segments_created, 8U);
  store_->Validate();
}

// field case 49
TEST_F(RuntimeStoreTest, WhatAStoppedSessionHasMappedGoesToNobodyUntilItHasEnded) {
  Start();
  const StatusOr<PoolGrant> grant = Acquire(a_, {{.size = MiB(64)}});
  ASSERT_TRUE(grant.ok());
  const PoolExport batch = Fetch(a_, grant->pool.id, {MiB(0), MiB(8)});
  Pass(seconds(29));
  EXPECT_EQ(LedgerNow().leased, MiB(64));
  Pass(seconds(2));
  ASSERT_EQ(events_.TakeLostPools().size(), 1U);
  EXPECT_EQ(LedgerNow().quarantined, MiB(16));
  EXPECT_EQ(LedgerNow().free(), MiB(48));
  store_->RenewSession(b_);
  const Status refused = Acquire(b_, {{.size = MiB(56)}}).status();
  EXPECT_TRUE(HasReason(refused, Reason::kHeldByLeases)) << refused;
  EXPECT_TRUE(HasReason(*store_->Release(a_, grant->buffers[0].id), Reason::kLeaseExpired));
  store_->EndSession(a_);
  EXPECT_TRUE(Acquire(b_, {{.size = MiB(56)}}).ok());
  store_->Validate();
}

// field case 16
TEST_F(RuntimeStoreTest, WhatADeadSessionHadIsFreeAtOnceAndAWaiterGetsIt) {
  Start();
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(64)}}).ok());
  std::future<StatusOr<PoolGrant>> waiting = std::async(
      std::launch::async, [&] { return Acquire(b_, {{.size = MiB(64)}}, seconds(3600)); });
  while (store_->TakeSnapshot().waiting == 0) std::this_thread::yield();
  store_->EndSession(a_);
  const StatusOr<PoolGrant> served = waiting.get();
  EXPECT_TRUE(served.ok()) << served.status();
  store_->Validate();
}

TEST_F(RuntimeStoreTest, RequestsAreServedInTheOrderOfPriorityAndThenOfArrival) {
  Start();
  const StatusOr<PoolGrant> all = Acquire(a_, {{.size = MiB(64)}});
  ASSERT_TRUE(all.ok());
  for (uint64_t i = 3; i <= 6; ++i)
    store_->OpenSession(SessionId(i), {.program = "waiter", .instance = std::to_string(i)});
  Mutex mutex;
  std::vector<uint64_t> order;
  std::vector<std::thread> threads;
  const auto wait_as = [&](uint64_t session, uint32_t priority) {
    const size_t before = store_->TakeSnapshot().waiting;
    threads.emplace_back([&, session, priority] {
      const StatusOr<PoolGrant> grant =
          Acquire(SessionId(session), {{.size = MiB(64)}}, seconds(3600), priority);
      ASSERT_TRUE(grant.ok()) << grant.status();
      {
        const MutexLock lock(mutex);
        order.push_back(session);
      }
      store_->EndSession(SessionId(session));
    });
    while (store_->TakeSnapshot().waiting == before) std::this_thread::yield();
  };
  wait_as(3, 0);
  wait_as(4, 0);
  wait_as(5, 7);
  wait_as(6, 7);
  store_->EndSession(a_);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(order, (std::vector<uint64_t>{5, 6, 3, 4}));
}

TEST_F(RuntimeStoreTest, ACallThatComesWhileTheSessionsPoolGrowsWaitsForThat) {
  Start();
  device_.HoldCreations(true);
  std::future<StatusOr<PoolGrant>> first =
      std::async(std::launch::async, [&] { return Acquire(a_, {{.size = MiB(4)}}); });
  ASSERT_TRUE(device_.AwaitHeldCreation());
  std::future<StatusOr<PoolGrant>> second =
      std::async(std::launch::async, [&] { return Acquire(a_, {{.size = MiB(1)}}); });
  while (store_->TakeSnapshot().waiting < 2 &&
         second.wait_for(seconds(0)) != std::future_status::ready) {
    std::this_thread::yield();
  }
  EXPECT_EQ(LedgerNow().loading, MiB(8));
  device_.HoldCreations(false);
  EXPECT_TRUE(first.get().ok());
  const StatusOr<PoolGrant> served = second.get();
  EXPECT_TRUE(served.ok()) << served.status();
  EXPECT_EQ(device_.counters().segments_created, 1U);
}

TEST_F(RuntimeStoreTest, ACallThatThePoolHasAPlaceForIsNotHeldUpByOneThatWaits) {
  Start();
  ASSERT_TRUE(Acquire(b_, {{.size = MiB(40)}}).ok());
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(2)}}).ok());
  std::future<StatusOr<PoolGrant>> waiting = std::async(
      std::launch::async, [&] { return Acquire(a_, {{.size = MiB(60)}}, seconds(3600)); });
  while (store_->TakeSnapshot().waiting == 0) std::this_thread::yield();
  EXPECT_TRUE(Acquire(a_, {{.size = MiB(2)}}).ok());
  // That one would take bytes that the first waits for.
  const Status behind = Acquire(a_, {{.size = MiB(10)}}).status();
  EXPECT_TRUE(HasReason(behind, Reason::kReclaimPending)) << behind;
  store_->EndSession(a_);
  EXPECT_FALSE(waiting.get().ok());
}

TEST_F(RuntimeStoreTest, UnusedSegmentsLeaveAfterTheirTimeToLive) {
  Start();
  const std::vector<Buffer> large = AcquireAll(a_, 1, MiB(40));
  ASSERT_TRUE(store_->Release(a_, large[0].id)->ok());
  const std::vector<Buffer> small = AcquireAll(a_, 1, KiB(4));
  Pass(seconds(9));
  EXPECT_EQ(LedgerNow().pooled, MiB(40) - KiB(4));
  Pass(seconds(2));
  EXPECT_EQ(LedgerNow().pooled, MiB(8) - KiB(4));
  EXPECT_EQ(LedgerNow().cached, MiB(32));
}

TEST_F(RuntimeStoreTest, GrantedSegmentsAreAskedForByTheirBytesAndLeaveOnceUnmapped) {
  Start();
  const StatusOr<PoolGrant> grown = Grow(a_, MiB(60));
  ASSERT_TRUE(grown.ok()) << grown.status();
  ASSERT_EQ(grown->segments.size(), 8U);
  const PoolExport batch = Fetch(a_, grown->pool.id, grown->segments);
  std::future<StatusOr<PoolGrant>> other =
      std::async(std::launch::async, [&] { return Acquire(b_, {{.size = MiB(10)}}); });
  const auto wanted = events_.AwaitWanted();
  ASSERT_EQ(wanted.size(), 1U);
  EXPECT_EQ(wanted[0].bytes, MiB(16));
  const std::vector<Bytes> back = {grown->segments[2], grown->segments[5]};
  ASSERT_TRUE(store_->Shrink(a_, grown->pool.id, back)->ok());
  EXPECT_FALSE(store_->Shrink(a_, grown->pool.id, back)->ok());
  for (const PoolExport::Entry& segment : batch.segments) {
    if (segment.offset == back[0] || segment.offset == back[1]) {
      EXPECT_TRUE(store_->Unmapped(a_, segment.share));
    }
  }
  EXPECT_TRUE(other.get().ok());
  store_->Validate();
}

TEST_F(RuntimeStoreTest, ASegmentThatCannotBeMadeRefusesTheRequestAndLeavesNothing) {
  Start();
  device_.FailCreation(3);
  const Status refused = Acquire(a_, {{.size = MiB(32)}}).status();
  EXPECT_TRUE(HasReason(refused, Reason::kBackend)) << refused;
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
  EXPECT_EQ(LedgerNow().unbacked, MiB(64));
  store_->Validate();
  EXPECT_TRUE(Acquire(a_, {{.size = MiB(32)}}).ok());
}

TEST_F(RuntimeStoreTest, ALostDeviceEndsEverythingAtOnce) {
  Start();
  ASSERT_TRUE(Acquire(a_, {{.size = MiB(64)}}).ok());
  std::future<StatusOr<PoolGrant>> waiting = std::async(
      std::launch::async, [&] { return Acquire(b_, {{.size = MiB(64)}}, seconds(3600)); });
  while (store_->TakeSnapshot().waiting == 0) std::this_thread::yield();
  device_.Lose();
  store_->Tick();
  EXPECT_TRUE(HasReason(waiting.get().status(), Reason::kDeviceLost));
  EXPECT_EQ(LedgerNow().lost, MiB(64));
  const auto lost = events_.TakeLostPools();
  ASSERT_FALSE(lost.empty());
  EXPECT_EQ(lost[0].reason, Reason::kDeviceLost);
  EXPECT_TRUE(HasReason(Acquire(a_, {{.size = KiB(4)}}).status(), Reason::kDeviceLost));
}

}  // namespace
}  // namespace tenure
