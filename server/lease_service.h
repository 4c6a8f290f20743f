#pragma once

#include <tenure/v1/lease.grpc.pb.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/store/store.h"
#include "server/gate.h"
#include "server/limit.h"
#include "server/refusal_log.h"

namespace tenure {

// LeaseService of proto/tenure/v1/lease.proto: checks, calls the Store, translates. Thread-safe.
class LeaseService final : public v1::LeaseService::Service {
 public:
  // All references outlive the service.
  LeaseService(Store& store, RefusalLog& refusals, const Gate& gate, const Clock& clock);

  grpc::Status AcquireWeights(grpc::ServerContext* context,
                              const v1::AcquireWeightsRequest* request,
                              v1::AcquireWeightsResponse* response) override;
  grpc::Status RenewLeases(grpc::ServerContext* context, const v1::RenewLeasesRequest* request,
                           v1::RenewLeasesResponse* response) override;
  grpc::Status ReleaseLease(grpc::ServerContext* context, const v1::ReleaseLeaseRequest* request,
                            v1::ReleaseLeaseResponse* response) override;
  grpc::Status AcquireBuffers(grpc::ServerContext* context,
                              const v1::AcquireBuffersRequest* request,
                              v1::AcquireBuffersResponse* response) override;
  grpc::Status ReleaseBuffers(grpc::ServerContext* context,
                              const v1::ReleaseBuffersRequest* request,
                              v1::ReleaseBuffersResponse* response) override;
  grpc::Status GrowPool(grpc::ServerContext* context, const v1::GrowPoolRequest* request,
                        v1::GrowPoolResponse* response) override;
  grpc::Status ShrinkPool(grpc::ServerContext* context, const v1::ShrinkPoolRequest* request,
                          v1::ShrinkPoolResponse* response) override;

 private:
  Status Acquire(grpc::ServerContext& context, const v1::AcquireWeightsRequest& request,
                 v1::AcquireWeightsResponse& response);
  Status AcquireFor(SessionId session, grpc::ServerContext& context,
                    const v1::AcquireWeightsRequest& request, v1::AcquireWeightsResponse& response);
  Status Renew(grpc::ServerContext& context, const v1::RenewLeasesRequest& request,
               v1::RenewLeasesResponse& response);
  Status Release(grpc::ServerContext& context, const v1::ReleaseLeaseRequest& request);

  // lease_service_pool.cc
  Status AcquireAll(grpc::ServerContext& context, const v1::AcquireBuffersRequest& request,
                    v1::AcquireBuffersResponse& response);
  Status ReleaseAll(grpc::ServerContext& context, const v1::ReleaseBuffersRequest& request,
                    v1::ReleaseBuffersResponse& response);
  Status Grow(grpc::ServerContext& context, const v1::GrowPoolRequest& request,
              v1::GrowPoolResponse& response);
  Status Shrink(grpc::ServerContext& context, const v1::ShrinkPoolRequest& request);
  // A grant that may wait, within limits of number and time; a refusal of `method` is noted.
  StatusOr<PoolGrant> AcquirePool(const grpc::ServerContext& context, std::string_view method,
                                  const PoolRequest& request, const std::string& device,
                                  const std::string& request_id);
  StatusOr<PoolGrant> TryAcquirePool(const grpc::ServerContext& context, const PoolRequest& request,
                                     const std::string& device, const std::string& request_id);

  Store& store_;
  RefusalLog& refusals_;
  const Gate& gate_;
  const Clock& clock_;
  Limit waits_;  // calls that may wait for runtime memory
};

}  // namespace tenure
