// Runtime memory over the handle socket.

#include <future>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include "tests/server/handle_fixture.h"

namespace tenure {
namespace {

class HandlePoolTest : public HandleTest {
 protected:
  // One Buffer of the session.
  StatusOr<PoolGrant> AcquireBuffer(SessionId session, Bytes size, Duration wait = {}) {
    return store_->AcquirePool(
        {.session = session, .wanted = std::vector<BufferSpec>{{.size = size}}, .wait = wait}, "",
        "", {});
  }
  static bool SayFetchPool(HandleClient& client, PoolId pool, const std::vector<Bytes>& offsets) {
    v1::ClientPacket packet;
    packet.mutable_fetch_pool()->set_pool_id(pool.value());
    for (const Bytes offset : offsets) packet.mutable_fetch_pool()->add_offsets(offset.count());
    return client.Say(packet);
  }
  // Fetches, acknowledges, and waits until that was heard.
  static HandleClient::Heard FetchPool(HandleClient& client, PoolId pool,
                                       const std::vector<Bytes>& offsets) {
    SayFetchPool(client, pool, offsets);
    std::optional<HandleClient::Heard> heard = client.Hear();
    EXPECT_TRUE(heard.has_value() && heard->packet.has_pool_batch());
    const v1::PoolBatch& batch = heard->packet.pool_batch();
    EXPECT_EQ(batch.segments_size(), static_cast<int>(offsets.size()));
    EXPECT_EQ(heard->fds.size(), offsets.size());
    client.SayAck(batch.segments().rbegin()->share_serial(),
                  static_cast<uint32_t>(batch.segments_size()));
    EXPECT_TRUE(client.IsServed());
    return *std::move(heard);
  }
  Ledger RuntimeNow() const { return store_->runtimes()[0]->TakeSnapshot().ledger; }
};

// Field case 41.
TEST_F(HandlePoolTest, WhatArrivesIsWrittenAndKeepsItsSize) {
  Start();
  HandleClient client = Connect();
  client.Join();
  const StatusOr<PoolGrant> grant = AcquireBuffer(client.session(), MiB(3));
  ASSERT_TRUE(grant.ok()) << grant.status();
  const HandleClient::Heard heard = FetchPool(client, grant->pool.id, {Bytes(0), MiB(2)});
  EXPECT_EQ(heard.packet.pool_batch().pool_id(), grant->pool.id.value());
  EXPECT_EQ(heard.packet.pool_batch().segments(1).offset(), MiB(2).count());
  EXPECT_EQ(heard.packet.pool_batch().segments(1).size(), kSegment.count());
  for (const UniqueFd& fd : heard.fds) {
    void* const map =
        mmap(nullptr, kSegment.count(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
    ASSERT_NE(map, MAP_FAILED);
    static_cast<char*>(map)[kSegment.count() - 1] = 1;
    munmap(map, kSegment.count());
    EXPECT_NE(ftruncate(fd.get(), 0), 0);
  }
}

TEST_F(HandlePoolTest, AFetchThatMakesNoSenseIsRefusedAndTheSessionGoesOn) {
  Start();
  HandleClient owner = Connect();
  owner.Join();
  HandleClient other = Connect();
  other.Join();
  const StatusOr<PoolGrant> grant = AcquireBuffer(owner.session(), MiB(1));
  ASSERT_TRUE(grant.ok());
  const auto refused = [&](HandleClient& client, PoolId pool, const std::vector<Bytes>& offsets) {
    SayFetchPool(client, pool, offsets);
    return client.Hear()->packet.pool_refused().reason();
  };
  EXPECT_EQ(refused(owner, grant->pool.id, {}), "INVALID_REQUEST");
  EXPECT_EQ(refused(owner, grant->pool.id, {Bytes(1)}), "INVALID_REQUEST");
  EXPECT_EQ(refused(owner, grant->pool.id, {MiB(2)}), "INVALID_REQUEST");
  EXPECT_EQ(refused(owner, grant->pool.id, std::vector<Bytes>(65, Bytes(0))), "INVALID_REQUEST");
  EXPECT_EQ(refused(owner, PoolId(99), {Bytes(0)}), "LEASE_NOT_FOUND");
  EXPECT_EQ(refused(other, grant->pool.id, {Bytes(0)}), "LEASE_NOT_FOUND");
  EXPECT_TRUE(owner.IsServed());
  EXPECT_TRUE(other.IsServed());
  EXPECT_EQ(store_->UseBy(owner.session()).shares, 0U);
}

TEST_F(HandlePoolTest, UnusedSegmentsAreRecalledForWhoWaitsAndItGetsThemOnceTheyAreUnmapped) {
  Start();
  HandleClient holder = Connect();
  holder.Join();
  HandleClient waiter = Connect();
  waiter.Join();
  const StatusOr<PoolGrant> grant = AcquireBuffer(holder.session(), kRuntime);
  ASSERT_TRUE(grant.ok());
  std::vector<Bytes> offsets;
  for (Bytes offset; offset < kRuntime; offset += kSegment) offsets.push_back(offset);
  const HandleClient::Heard heard = FetchPool(holder, grant->pool.id, offsets);
  ASSERT_TRUE(store_->ReleaseBuffer(holder.session(), grant->buffers[0].id).ok());

  std::future<StatusOr<PoolGrant>> waiting =
      std::async(std::launch::async, [&] { return AcquireBuffer(waiter.session(), MiB(3)); });
  const std::optional<HandleClient::Heard> recall = holder.Hear();
  ASSERT_TRUE(recall.has_value() && recall->packet.has_pool_recall());
  EXPECT_EQ(recall->packet.pool_recall().pool_id(), grant->pool.id.value());
  ASSERT_EQ(recall->packet.pool_recall().share_serials_size(), 2);
  const auto& serials = recall->packet.pool_recall().share_serials();
  holder.SayUnmapped({serials.begin(), serials.end()});
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(HandlePoolTest, WhoeverDoesNotAnswerIsPassedOverAndKeepsWhatItMayTouch) {
  Start();
  HandleClient holder = Connect();
  holder.Join();
  HandleClient waiter = Connect();
  waiter.Join();
  const StatusOr<PoolGrant> grant = AcquireBuffer(holder.session(), kRuntime);
  ASSERT_TRUE(grant.ok());
  const HandleClient::Heard heard = FetchPool(holder, grant->pool.id, {Bytes(0)});
  ASSERT_TRUE(store_->ReleaseBuffer(holder.session(), grant->buffers[0].id).ok());
  std::future<StatusOr<PoolGrant>> waiting =
      std::async(std::launch::async, [&] { return AcquireBuffer(waiter.session(), kRuntime); });
  ASSERT_TRUE(holder.Hear()->packet.has_pool_recall());
  Pass(std::chrono::seconds(1));
  EXPECT_TRUE(HasReason(waiting.get().status(), Reason::kHeldByLeases));
  EXPECT_EQ(RuntimeNow().quarantined, kSegment);
  EXPECT_TRUE(AcquireBuffer(waiter.session(), kRuntime - kSegment).ok());
}

TEST_F(HandlePoolTest, AnExpiredPoolIsTold) {
  Start();
  HandleClient client = Connect();
  client.Join();
  const StatusOr<PoolGrant> grant = AcquireBuffer(client.session(), MiB(1));
  ASSERT_TRUE(grant.ok());
  FetchPool(client, grant->pool.id, {Bytes(0)});
  Pass(std::chrono::seconds(31));
  const std::optional<HandleClient::Heard> lost = client.Hear();
  ASSERT_TRUE(lost.has_value() && lost->packet.has_pool_lost());
  EXPECT_EQ(lost->packet.pool_lost().reason(), "LEASE_EXPIRED");
  EXPECT_EQ(RuntimeNow().quarantined, kSegment);
  SayFetchPool(client, grant->pool.id, {Bytes(0)});
  EXPECT_EQ(client.Hear()->packet.pool_refused().reason(), "LEASE_EXPIRED");
}

TEST_F(HandlePoolTest, ABatchIsNotUnmappedBeforeItWasAcknowledged) {
  Start();
  HandleClient client = Connect();
  client.Join();
  const StatusOr<PoolGrant> grant = AcquireBuffer(client.session(), MiB(3));
  ASSERT_TRUE(grant.ok());
  SayFetchPool(client, grant->pool.id, {Bytes(0), MiB(2)});
  const std::optional<HandleClient::Heard> heard = client.Hear();
  ASSERT_TRUE(heard.has_value() && heard->packet.has_pool_batch());
  client.SayUnmapped({heard->packet.pool_batch().segments(0).share_serial()});
  EXPECT_TRUE(Reaches(client.session(), SessionState::kDeaf));
  EXPECT_EQ(store_->UseBy(client.session()).shares, 2U);
}

}  // namespace
}  // namespace tenure
