#include "server/admin_service.h"

#include <gtest/gtest.h>

#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class AdminServiceTest : public ServiceTest {};

TEST_F(AdminServiceTest, StatusTellsTheWholeLedgerAndItBalances) {
  v1::LoadModelRequest leased = RequestFor("a", Bytes(20'000), 1);
  leased.set_acquire(true);
  Load(leased);
  Load(RequestFor("b", Bytes(30'000), 1));
  Load(RequestFor("c", KiB(40), 1));
  Unload("c");

  grpc::ClientContext context;
  v1::GetStatusResponse status;
  ASSERT_EQ(ReasonOf(admin_->GetStatus(&context, {}, &status)), "OK");
  EXPECT_EQ(status.version(), TENURE_VERSION);
  EXPECT_EQ(status.boot_id(), kBootId);
  EXPECT_EQ(status.metrics_address(), "127.0.0.1:1");
  ASSERT_EQ(status.model_roots_size(), 1);
  EXPECT_EQ(status.model_roots(0).path(), directory_.path());
  ASSERT_EQ(status.devices_size(), 1);
  EXPECT_EQ(status.devices(0).name(), "host:0");
  EXPECT_EQ(status.devices(0).uuid(), "small-host:0");
  EXPECT_GT(status.devices(0).backend_counters().segments_created(), 0u);
  ASSERT_EQ(status.devices(0).arenas_size(), 2);
  const v1::ArenaLedger& arena = status.devices(0).arenas(0);
  EXPECT_EQ(arena.arena(), "weights");
  EXPECT_EQ(arena.leased(), 20'000u);
  EXPECT_EQ(arena.idle(), 30'000u);
  EXPECT_EQ(arena.retained(), KiB(40).count());
  EXPECT_EQ(arena.free(), arena.cached() + arena.unbacked());
  EXPECT_EQ(arena.capacity(), arena.leased() + arena.loading() + arena.idle() + arena.retained() +
                                  arena.quarantined() + arena.padding() + arena.free());
  EXPECT_EQ(arena.allocated(), arena.leased() + arena.loading() + arena.idle() +
                                   arena.quarantined() + arena.padding());
  EXPECT_EQ(arena.requested(), 50'000u);

  v1::AcquireBuffersRequest buffers;
  buffers.add_buffers()->set_size(KiB(40).count() + 1);
  v1::AcquireBuffersResponse granted;
  ASSERT_TRUE(leases_->AcquireBuffers(Call().get(), buffers, &granted).ok());
  grpc::ClientContext again;
  ASSERT_EQ(ReasonOf(admin_->GetStatus(&again, {}, &status)), "OK");
  const v1::ArenaLedger& runtime = status.devices(0).arenas(1);
  EXPECT_EQ(runtime.arena(), "runtime");
  EXPECT_EQ(runtime.leased(), KiB(40).count() + 1);
  EXPECT_EQ(runtime.padding(), 255u);
  EXPECT_EQ(runtime.pooled(), KiB(64).count() - KiB(40).count() - 256);
  EXPECT_EQ(runtime.free(), runtime.cached() + runtime.pooled() + runtime.unbacked());
  EXPECT_EQ(runtime.capacity(), runtime.leased() + runtime.padding() + runtime.free());
  EXPECT_EQ(runtime.largest_free(), KiB(256).count() - KiB(40).count() - 256);
}

TEST_F(AdminServiceTest, SessionsAreListedWithWhatTheyHold) {
  v1::LoadModelRequest request = RequestFor("a", KiB(4), 1);
  request.set_acquire(true);
  Load(request);
  OpenSession();
  v1::ListSessionsResponse response;
  ASSERT_EQ(ReasonOf(admin_->ListSessions(Call().get(), {}, &response)), "OK");
  ASSERT_EQ(response.sessions_size(), 2);
  EXPECT_EQ(response.sessions(0).program(), "tester");
  EXPECT_EQ(response.sessions(0).state(), v1::SESSION_STATE_LIVE);
  EXPECT_EQ(response.sessions(0).lease_count(), 1u);
  EXPECT_EQ(response.sessions(1).lease_count(), 0u);
}

}  // namespace
}  // namespace tenure
