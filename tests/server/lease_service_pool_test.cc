#include <gmock/gmock.h>
#include <set>
#include <vector>

#include "tests/server/captured_log.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

using ::testing::HasSubstr;

// A runtime arena of 256 KiB in segments of 32 KiB.
class BufferServiceTest : public ServiceTest {
 protected:
  static v1::AcquireBuffersRequest RequestOf(const std::vector<Bytes>& sizes) {
    v1::AcquireBuffersRequest request;
    for (const Bytes size : sizes) request.add_buffers()->set_size(size.count());
    return request;
  }
  grpc::Status Acquire(const v1::AcquireBuffersRequest& request,
                       v1::AcquireBuffersResponse& response) {
    return leases_->AcquireBuffers(Call().get(), request, &response);
  }
  v1::AcquireBuffersResponse Acquired(const v1::AcquireBuffersRequest& request) {
    v1::AcquireBuffersResponse response;
    const grpc::Status status = Acquire(request, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  // The reason of a request that must be refused.
  std::string Refused(const v1::AcquireBuffersRequest& request) {
    v1::AcquireBuffersResponse response;
    return ReasonOf(Acquire(request, response));
  }
  v1::ReleaseBuffersResponse Release(const std::vector<uint64_t>& ids,
                                     const std::string& token = {}) {
    v1::ReleaseBuffersRequest request;
    for (const uint64_t id : ids) request.mutable_buffers()->add_buffer_ids(id);
    v1::ReleaseBuffersResponse response;
    const grpc::Status status =
        leases_->ReleaseBuffers(Call(token.empty() ? token_ : token).get(), request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  Ledger LedgerNow() const { return store_->runtimes()[0]->TakeSnapshot().ledger; }
};

TEST_F(BufferServiceTest, BuffersLieInThePoolOfTheSessionWithoutTouchingEachOther) {
  v1::AcquireBuffersRequest request = RequestOf({Bytes(1), KiB(50), KiB(3)});
  request.mutable_buffers(1)->set_alignment(KiB(4).count());
  const v1::AcquireBuffersResponse response = Acquired(request);
  EXPECT_EQ(response.pool().device(), "host:0");
  EXPECT_EQ(response.pool().segment_bytes(), KiB(32).count());
  ASSERT_EQ(response.buffers_size(), 3);
  uint64_t end = 0;
  std::set<std::pair<uint64_t, uint64_t>> places;
  for (const v1::Buffer& buffer : response.buffers()) {
    places.emplace(buffer.offset(), buffer.size());
    EXPECT_LE(buffer.offset() + buffer.size(), response.pool().range_bytes());
  }
  for (const auto& [offset, size] : places) {
    EXPECT_GE(offset, end);
    end = offset + size;
  }
  EXPECT_EQ(response.buffers(1).offset() % KiB(4).count(), 0U);
  EXPECT_GE(response.buffers(0).size(), 1U);
  EXPECT_EQ(LedgerNow().leased, Bytes(1) + KiB(50) + KiB(3));
  EXPECT_EQ(Acquired(RequestOf({KiB(1)})).pool().pool_id(), response.pool().pool_id());
}

TEST_F(BufferServiceTest, SizesAndAlignmentsThatMakeNoSenseAreRefusedByName) {
  EXPECT_EQ(Refused({}), "INVALID_REQUEST");
  EXPECT_EQ(Refused(RequestOf({Bytes(0)})), "INVALID_REQUEST");
  EXPECT_EQ(Refused(RequestOf({Bytes(UINT64_MAX)})), "INVALID_REQUEST");
  EXPECT_EQ(Refused(RequestOf({Bytes(uint64_t{1} << 63)})), "INVALID_REQUEST");
  EXPECT_EQ(Refused(RequestOf(std::vector<Bytes>(1001, Bytes(1)))), "INVALID_REQUEST");
  for (const uint64_t alignment : {3ULL, 1000ULL, 4ULL << 20, 1ULL << 63}) {
    v1::AcquireBuffersRequest request = RequestOf({KiB(1)});
    request.mutable_buffers(0)->set_alignment(alignment);
    EXPECT_EQ(Refused(request), "INVALID_REQUEST") << alignment;
  }
  v1::AcquireBuffersRequest kind = RequestOf({KiB(1)});
  kind.mutable_buffers(0)->set_kind(static_cast<v1::BufferKind>(9));
  EXPECT_EQ(Refused(kind), "INVALID_REQUEST");
  v1::AcquireBuffersRequest wait = RequestOf({KiB(1)});
  wait.mutable_wait()->set_seconds(-1);
  EXPECT_EQ(Refused(wait), "INVALID_REQUEST");
  v1::AcquireBuffersRequest device = RequestOf({KiB(1)});
  device.set_device("gpu:7");
  EXPECT_EQ(Refused(device), "DEVICE_NOT_FOUND");
  EXPECT_EQ(Refused(RequestOf({KiB(300)})), "CAPACITY");
  EXPECT_EQ(LedgerNow().free(), KiB(256));
  EXPECT_EQ(LedgerNow().reserved, Bytes(0));
}

TEST_F(BufferServiceTest, OnlyWhoHoldsABufferReleasesItAndOnlyOnce) {
  const v1::AcquireBuffersResponse mine = Acquired(RequestOf({KiB(8), KiB(8)}));
  const uint64_t first = mine.buffers(0).buffer_id();
  const v1::ReleaseBuffersResponse stranger = Release({first}, OpenSession());
  ASSERT_EQ(stranger.unreleased_size(), 1);
  EXPECT_EQ(stranger.unreleased(0).reason(), "LEASE_NOT_FOUND");
  const v1::ReleaseBuffersResponse twice =
      Release({first, first, 0, mine.buffers(1).buffer_id(), UINT64_MAX});
  ASSERT_EQ(twice.unreleased_size(), 3);
  EXPECT_EQ(twice.unreleased(0).buffer_id(), first);
  EXPECT_EQ(LedgerNow().leased, Bytes(0));
}

TEST_F(BufferServiceTest, ARepeatedRequestIsGrantedOnce) {
  v1::AcquireBuffersRequest request = RequestOf({KiB(8)});
  request.set_request_id("one");
  const v1::AcquireBuffersResponse first = Acquired(request);
  const v1::AcquireBuffersResponse again = Acquired(request);
  EXPECT_EQ(first.buffers(0).buffer_id(), again.buffers(0).buffer_id());
  EXPECT_EQ(LedgerNow().leased, KiB(8));
  v1::AcquireBuffersRequest other = RequestOf({KiB(9)});
  other.set_request_id("one");
  EXPECT_EQ(Refused(other), "REQUEST_ID_REUSED");
  Release({first.buffers(0).buffer_id()});
  const v1::AcquireBuffersResponse anew = Acquired(request);
  EXPECT_NE(anew.buffers(0).buffer_id(), first.buffers(0).buffer_id());
}

TEST_F(BufferServiceTest, WhatWasGrantedToACallWithoutAReplyIsTakenBackByItsRequestId) {
  v1::AcquireBuffersRequest request = RequestOf({KiB(8)});
  request.set_request_id("lost");
  Acquired(request);
  v1::ReleaseBuffersRequest release;
  release.set_request_id("lost");
  v1::ReleaseBuffersResponse response;
  ASSERT_TRUE(leases_->ReleaseBuffers(Call().get(), release, &response).ok());
  EXPECT_EQ(LedgerNow().leased, Bytes(0));
  EXPECT_EQ(Refused(request), "CANCELLED");
  EXPECT_EQ(ReasonOf(leases_->ReleaseBuffers(Call().get(), {}, &response)), "INVALID_REQUEST");
}

TEST_F(BufferServiceTest, APoolGrowsByWholeSegmentsAndShrinksByThoseItGotSo) {
  v1::GrowPoolRequest grow;
  grow.set_bytes(KiB(70).count());
  v1::GrowPoolResponse grown;
  ASSERT_TRUE(leases_->GrowPool(Call().get(), grow, &grown).ok());
  EXPECT_EQ(grown.bytes(), KiB(96).count());
  EXPECT_EQ(LedgerNow().leased, KiB(96));
  v1::ShrinkPoolRequest shrink;
  shrink.set_pool_id(grown.pool().pool_id());
  shrink.add_offsets(grown.offset() + KiB(32).count());
  v1::ShrinkPoolResponse shrunk;
  EXPECT_EQ(ReasonOf(leases_->ShrinkPool(Call(OpenSession()).get(), shrink, &shrunk)),
            "LEASE_NOT_FOUND");
  ASSERT_TRUE(leases_->ShrinkPool(Call().get(), shrink, &shrunk).ok());
  EXPECT_EQ(LedgerNow().leased, KiB(64));
  EXPECT_EQ(ReasonOf(leases_->ShrinkPool(Call().get(), shrink, &shrunk)), "INVALID_REQUEST");
  shrink.set_offsets(0, grown.offset() + 1);
  EXPECT_EQ(ReasonOf(leases_->ShrinkPool(Call().get(), shrink, &shrunk)), "INVALID_REQUEST");
  grow.set_bytes(UINT64_MAX);
  EXPECT_EQ(ReasonOf(leases_->GrowPool(Call().get(), grow, &grown)), "INVALID_REQUEST");
  grow.set_bytes(0);
  ASSERT_TRUE(leases_->GrowPool(Call().get(), grow, &grown).ok());
  EXPECT_EQ(grown.pool().pool_id(), shrink.pool_id());
  EXPECT_EQ(grown.bytes(), 0U);
  EXPECT_EQ(LedgerNow().leased, KiB(64));
}

// field case 2
TEST_F(BufferServiceTest, WhoWaitsInVainHearsWhoHoldsTheRoom) {
  const std::string other = OpenSession();
  v1::AcquireBuffersResponse held;
  ASSERT_TRUE(leases_->AcquireBuffers(Call(other).get(), RequestOf({KiB(200)}), &held).ok());
  v1::AcquireBuffersRequest request = RequestOf({KiB(100)});
  request.mutable_wait()->set_nanos(50'000'000);
  v1::AcquireBuffersResponse response;
  const grpc::Status refused = Acquire(request, response);
  EXPECT_EQ(ReasonOf(refused), "HELD_BY_LEASES");
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.error_message().find("tester/0"), std::string::npos) << refused.error_message();
}

TEST_F(BufferServiceTest, ARefusalLeavesALineInTheLog) {
  v1::AcquireBuffersRequest request = RequestOf({KiB(512)});
  request.set_request_id("large\none");
  request.set_device("host:0");
  const CapturedLog log;
  EXPECT_EQ(Refused(request), "CAPACITY");
  EXPECT_THAT(log.text(), HasSubstr("warning buffers refused method=AcquireBuffers device=host:0"
                                    " bytes=524288 seconds=0.0"));
  EXPECT_THAT(log.text(), HasSubstr(" request_id=large?one reason=CAPACITY message="));
}

}  // namespace
}  // namespace tenure
