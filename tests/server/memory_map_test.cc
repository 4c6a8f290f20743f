#include "server/memory_map.h"

#include <chrono>
#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>

#include <nlohmann/json.hpp>

#include "server/json.h"
#include "server/map_parts.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class MemoryMapTest : public ServiceTest {
 protected:
  // Over gRPC, all parts.
  v1::MemoryMap Fetch() {
    std::string bytes;
    v1::GetMemoryMapRequest request;
    do {
      v1::GetMemoryMapResponse response;
      EXPECT_EQ(ReasonOf(admin_->GetMemoryMap(Call().get(), request, &response)), "OK");
      EXPECT_LE(response.part().size(), MapParts::kMostPart);
      bytes += response.part();
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    v1::MemoryMap map;
    EXPECT_TRUE(map.ParseFromString(bytes));
    return map;
  }

  void Acquire(uint64_t size, v1::AcquireBuffersResponse* granted = nullptr) {
    v1::AcquireBuffersRequest request;
    request.add_buffers()->set_size(size);
    v1::AcquireBuffersResponse response;
    ASSERT_EQ(ReasonOf(leases_->AcquireBuffers(Call().get(), request,
                                               granted == nullptr ? &response : granted)),
              "OK");
  }
};

// What is drawn of an arena is all of it.
void ExpectToAddUp(const v1::ArenaMap& arena) {
  uint64_t bytes = 0;
  std::map<v1::Holding, uint64_t> held;
  for (const v1::RegionMap& region : arena.regions()) {
    bytes += region.bytes();
    held[region.holding()] += region.bytes();
    uint64_t segments = 0;
    for (const v1::SegmentRun& run : region.segments()) segments += run.size() * run.count();
    EXPECT_EQ(segments, region.bytes()) << region.model();
  }
  for (const v1::PoolMap& pool : arena.pools()) {
    bytes += pool.segment_bytes() * static_cast<uint64_t>(pool.segments_size());
  }
  const v1::ArenaLedger& ledger = arena.ledger();
  EXPECT_EQ(ledger.capacity(), bytes + ledger.cached() + ledger.unbacked() + ledger.stranded());
  uint64_t cached = arena.leaving_bytes();
  for (const v1::SegmentRun& run : arena.cached()) cached += run.size() * run.count();
  EXPECT_EQ(cached, ledger.cached());
  EXPECT_EQ(held[v1::HOLDING_RETAINED], ledger.retained());
  const uint64_t owned = held[v1::HOLDING_LEASED] + held[v1::HOLDING_IDLE] +
                         held[v1::HOLDING_LOADING] + held[v1::HOLDING_QUARANTINED];
  EXPECT_EQ(owned, ledger.arena() == "weights" ? ledger.allocated() : 0);
}

TEST_F(MemoryMapTest, TellsEveryRegionWithItsHoldersAndAddsUp) {
  v1::LoadModelRequest leased = RequestFor("a", Bytes(20'000), 1);
  leased.set_acquire(true);
  Load(leased);
  Load(RequestFor("b", Bytes(30'000), 1));
  Load(RequestFor("c", KiB(40), 1));
  Unload("c");

  const v1::MemoryMap map = Fetch();
  EXPECT_EQ(map.schema(), 1u);
  EXPECT_EQ(map.version(), TENURE_VERSION);
  EXPECT_EQ(map.boot_id(), kBootId);
  EXPECT_GT(map.time().seconds(), 1'600'000'000);
  ASSERT_EQ(map.devices_size(), 1);
  EXPECT_EQ(map.devices(0).uuid(), "small-host:0");
  EXPECT_EQ(map.devices(0).counters().loads(), 3u);
  EXPECT_EQ(map.devices(0).counters().leases_granted(), 1u);
  ASSERT_EQ(map.devices(0).arenas_size(), 2);
  const v1::ArenaMap& weights = map.devices(0).arenas(0);
  ExpectToAddUp(weights);
  ExpectToAddUp(map.devices(0).arenas(1));
  ASSERT_EQ(weights.regions_size(), 3);
  const v1::RegionMap& a = weights.regions(0);
  EXPECT_EQ(a.model(), "a");
  EXPECT_EQ(a.revision(), 1u);
  EXPECT_EQ(a.holding(), v1::HOLDING_LEASED);
  EXPECT_EQ(a.state(), v1::MODEL_STATE_ACTIVE);
  EXPECT_EQ(a.generation(), 1u);
  EXPECT_EQ(a.architecture_key().size(), 32u);
  EXPECT_EQ(a.tensor_bytes(), 20'000u);
  ASSERT_EQ(a.holders_size(), 1);
  EXPECT_EQ(a.holders(0).leases(), 1u);
  EXPECT_GT(a.holders(0).lease_expires_in().seconds(), 20);
  EXPECT_EQ(weights.regions(1).holding(), v1::HOLDING_IDLE);
  EXPECT_EQ(weights.regions(1).holders_size(), 0);
  EXPECT_FALSE(weights.regions(1).has_expires_in());
  EXPECT_EQ(weights.regions(2).holding(), v1::HOLDING_RETAINED);
  EXPECT_GT(weights.regions(2).expires_in().seconds(), 500);
  ASSERT_EQ(map.sessions_size(), 1);
  EXPECT_EQ(map.sessions(0).program(), "tester");
  EXPECT_EQ(map.sessions(0).session_id(), a.holders(0).session_id());
}

TEST_F(MemoryMapTest, TellsEveryPoolWithItsBuffers) {
  Acquire(KiB(40).count() + 1);
  Acquire(300);
  const v1::MemoryMap map = Fetch();
  const v1::ArenaMap& runtime = map.devices(0).arenas(1);
  ExpectToAddUp(runtime);
  ASSERT_EQ(runtime.pools_size(), 1);
  const v1::PoolMap& pool = runtime.pools(0);
  EXPECT_TRUE(pool.live());
  EXPECT_EQ(pool.session_id(), map.sessions(0).session_id());
  EXPECT_GT(pool.lease_expires_in().seconds(), 20);
  EXPECT_EQ(pool.kinds_size(), 3);
  ASSERT_EQ(pool.segments_size(), 2);
  EXPECT_EQ(pool.segments(0).state(), v1::POOL_SEGMENT_STATE_OPEN);
  ASSERT_EQ(pool.buffers_size(), 2);
  EXPECT_EQ(pool.buffers(0).offset(), 0u);
  EXPECT_EQ(pool.buffers(0).requested(), KiB(40).count() + 1);
  EXPECT_EQ(pool.buffers(0).kind(), v1::BUFFER_KIND_ACTIVATION);
  EXPECT_LT(pool.buffers(0).offset(), pool.buffers(1).offset());
  EXPECT_EQ(pool.buffers(1).size(), 512u);
  EXPECT_GE(pool.buffers(0).age().nanos(), pool.buffers(1).age().nanos());
}

TEST_F(MemoryMapTest, NeedsASession) {
  grpc::ClientContext nobody;
  v1::GetMemoryMapResponse response;
  EXPECT_EQ(ReasonOf(admin_->GetMemoryMap(&nobody, {}, &response)), "SESSION_UNKNOWN");
}

TEST_F(MemoryMapTest, PartsOfAMapAreOfOneMoment) {
  Load(RequestFor("a", Bytes(20'000), 1));
  MapParts parts(*maps_, clock_, /*part_size=*/100);
  v1::GetMemoryMapRequest request;
  v1::GetMemoryMapResponse first = *parts.Get(request);
  EXPECT_EQ(first.part().size(), 100u);
  Load(RequestFor("b", Bytes(20'000), 1));
  std::string bytes = first.part();
  request.set_page_token(first.next_page_token());
  while (!request.page_token().empty()) {
    const auto next = parts.Get(request);
    ASSERT_TRUE(next.ok()) << next.status();
    bytes += next->part();
    request.set_page_token(next->next_page_token());
  }
  v1::MemoryMap map;
  ASSERT_TRUE(map.ParseFromString(bytes));
  EXPECT_EQ(map.devices(0).arenas(0).regions_size(), 1);

  // It is gone with its last part; so is one that many others were begun after.
  request.set_page_token(first.next_page_token());
  EXPECT_TRUE(HasReason(parts.Get(request).status(), Reason::kInvalidRequest));
  first = *parts.Get({});
  for (size_t i = 0; i < MapParts::kMostMaps; ++i) ASSERT_TRUE(parts.Get({}).ok());
  request.set_page_token(first.next_page_token());
  EXPECT_TRUE(HasReason(parts.Get(request).status(), Reason::kInvalidRequest));
  request.set_page_token("nonsense");
  EXPECT_TRUE(HasReason(parts.Get(request).status(), Reason::kInvalidRequest));
}

TEST_F(MemoryMapTest, ItsJsonReadsBackAndHasEveryField) {
  v1::LoadModelRequest leased = RequestFor("a", Bytes(20'000), 1);
  leased.set_acquire(true);
  Load(leased);
  const v1::MemoryMap map = maps_->Take();
  v1::MemoryMap back;
  ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(ToJson(map), &back).ok());
  EXPECT_EQ(back.SerializeAsString(), map.SerializeAsString());
  const auto json = nlohmann::json::parse(ToJson(map));
  EXPECT_EQ(json["devices"][0]["arenas"][0]["regions"][0]["holding"], "HOLDING_LEASED");
  EXPECT_EQ(json["devices"][0]["arenas"][0]["ledger"]["idle"], "0");
}

}  // namespace
}  // namespace tenure
