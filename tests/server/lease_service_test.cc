#include "server/lease_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/server/captured_log.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

using ::testing::HasSubstr;

class LeaseServiceTest : public ServiceTest {
 protected:
  LeaseServiceTest() { Load(RequestFor("a", KiB(20), 1)); }

  v1::AcquireWeightsRequest AcquireRequest() const {
    v1::AcquireWeightsRequest request;
    request.set_name("a");
    return request;
  }
  v1::WeightLease Acquire(const v1::AcquireWeightsRequest& request) {
    v1::AcquireWeightsResponse response;
    EXPECT_EQ(ReasonOf(leases_->AcquireWeights(Call().get(), request, &response)), "OK");
    return response.lease();
  }
  std::string Release(const v1::ReleaseLeaseRequest& request, const std::string& token) {
    v1::ReleaseLeaseResponse response;
    return ReasonOf(leases_->ReleaseLease(Call(token).get(), request, &response));
  }
};

TEST_F(LeaseServiceTest, ALeaseIsAcquiredRenewedAndReleased) {
  v1::AcquireWeightsRequest request = AcquireRequest();
  request.mutable_ttl()->set_seconds(60);
  const v1::WeightLease lease = Acquire(request);
  EXPECT_EQ(lease.ttl().seconds(), 60);
  EXPECT_EQ(LiveLeases(), 1u);

  v1::RenewLeasesRequest renew;
  renew.add_lease_ids(lease.lease_id());
  renew.add_lease_ids(9999);
  v1::RenewLeasesResponse renewed;
  EXPECT_EQ(ReasonOf(leases_->RenewLeases(Call().get(), renew, &renewed)), "OK");
  ASSERT_EQ(renewed.renewals_size(), 2);
  EXPECT_EQ(renewed.renewals(0).reason(), "");
  EXPECT_GE(renewed.renewals(0).expires_in().seconds(), 59);
  EXPECT_EQ(renewed.renewals(0).generation(), lease.generation());
  EXPECT_EQ(renewed.renewals(1).lease_id(), 9999u);
  EXPECT_EQ(renewed.renewals(1).reason(), "LEASE_NOT_FOUND");
  EXPECT_FALSE(renewed.renewals(1).has_expires_in());

  v1::ReleaseLeaseRequest release;
  release.set_lease_id(lease.lease_id());
  EXPECT_EQ(Release(release, token_), "OK");
  EXPECT_EQ(LiveLeases(), 0u);
  EXPECT_EQ(Release(release, token_), "LEASE_NOT_FOUND");
}

TEST_F(LeaseServiceTest, ALeaseIsItsSessionsOwn) {
  v1::ReleaseLeaseRequest release;
  release.set_lease_id(Acquire(AcquireRequest()).lease_id());
  EXPECT_EQ(Release(release, OpenSession()), "LEASE_NOT_FOUND");
  EXPECT_EQ(LiveLeases(), 1u);
}

TEST_F(LeaseServiceTest, ARepeatedRequestGetsItsLeaseAgainAndCanBeWithdrawn) {
  v1::AcquireWeightsRequest request = AcquireRequest();
  request.set_request_id("r1");
  const v1::WeightLease lease = Acquire(request);
  EXPECT_EQ(Acquire(request).lease_id(), lease.lease_id());
  EXPECT_EQ(LiveLeases(), 1u);
  v1::ReleaseLeaseRequest release;
  release.set_acquire_request_id("r1");
  EXPECT_EQ(Release(release, token_), "OK");
  EXPECT_EQ(LiveLeases(), 0u);
}

TEST_F(LeaseServiceTest, RequestsThatMakeNoSenseAreRefused) {
  v1::AcquireWeightsResponse acquired;
  v1::AcquireWeightsRequest acquire = AcquireRequest();
  acquire.mutable_ttl()->set_nanos(1);
  EXPECT_EQ(ReasonOf(leases_->AcquireWeights(Call().get(), acquire, &acquired)), "INVALID_REQUEST");
  acquire = AcquireRequest();
  acquire.set_request_id(std::string(65, 'r'));
  EXPECT_EQ(ReasonOf(leases_->AcquireWeights(Call().get(), acquire, &acquired)), "INVALID_REQUEST");
  acquire.Clear();
  EXPECT_EQ(ReasonOf(leases_->AcquireWeights(Call().get(), acquire, &acquired)), "INVALID_REQUEST");
  acquire.set_name("b");
  EXPECT_EQ(ReasonOf(leases_->AcquireWeights(Call().get(), acquire, &acquired)), "MODEL_NOT_FOUND");

  v1::RenewLeasesRequest renew;
  for (uint64_t i = 0; i < 1001; ++i) renew.add_lease_ids(i);
  v1::RenewLeasesResponse renewed;
  EXPECT_EQ(ReasonOf(leases_->RenewLeases(Call().get(), renew, &renewed)), "INVALID_REQUEST");

  v1::ReleaseLeaseRequest release;
  EXPECT_EQ(Release(release, token_), "INVALID_REQUEST");
  release.set_load_request_id("");
  EXPECT_EQ(Release(release, token_), "INVALID_REQUEST");
}

TEST_F(LeaseServiceTest, ARefusalLeavesALineInTheLog) {
  v1::AcquireWeightsRequest request;
  request.set_name("nobody");
  request.set_request_id("r7");
  v1::AcquireWeightsResponse response;
  const CapturedLog log;
  EXPECT_EQ(ReasonOf(leases_->AcquireWeights(Call().get(), request, &response)), "MODEL_NOT_FOUND");
  EXPECT_THAT(log.text(), HasSubstr("warning lease refused name=nobody device= session="));
  EXPECT_THAT(log.text(), HasSubstr(" request_id=r7 reason=MODEL_NOT_FOUND message="));
}

}  // namespace
}  // namespace tenure
