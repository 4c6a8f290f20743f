#pragma once

#include <tenure/v1/lease.grpc.pb.h>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/store/store.h"
#include "server/gate.h"

namespace tenure {

// LeaseService of proto/tenure/v1/lease.proto: checks, calls the Store, translates. Thread-safe.
class LeaseService final : public v1::LeaseService::Service {
 public:
  // All references outlive the service.
  LeaseService(Store& store, const Gate& gate, const Clock& clock);

  grpc::Status AcquireWeights(grpc::ServerContext* context,
                              const v1::AcquireWeightsRequest* request,
                              v1::AcquireWeightsResponse* response) override;
  grpc::Status RenewLeases(grpc::ServerContext* context, const v1::RenewLeasesRequest* request,
                           v1::RenewLeasesResponse* response) override;
  grpc::Status ReleaseLease(grpc::ServerContext* context, const v1::ReleaseLeaseRequest* request,
                            v1::ReleaseLeaseResponse* response) override;

 private:
  Status Acquire(grpc::ServerContext& context, const v1::AcquireWeightsRequest& request,
                 v1::AcquireWeightsResponse& response);
  Status Renew(grpc::ServerContext& context, const v1::RenewLeasesRequest& request,
               v1::RenewLeasesResponse& response);
  Status Release(grpc::ServerContext& context, const v1::ReleaseLeaseRequest& request);

  Store& store_;
  const Gate& gate_;
  const Clock& clock_;
};

}  // namespace tenure
