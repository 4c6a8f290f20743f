#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "client/cpp/duration.h"
#include "client/cpp/rpc.h"
#include "core/base/ids.h"
#include "core/base/unique_fd.h"
#include "tenure/errors.h"
#include "tests/server/handle_client.h"

namespace tenure {

// A session without the library: says on both sockets what it is told, as anybody could. Throws
// std::runtime_error if there is no session to be had. Thread-compatible.
class WireClient {
 public:
  explicit WireClient(const std::string& directory)
      : directory_(directory), handle_(directory + "/handle.sock"), welcome_(handle_.Join()) {}

  HandleClient& handle() { return handle_; }
  uint64_t session_id() const { return welcome_.session_id(); }
  const std::string& boot_id() const { return welcome_.boot_id(); }
  const std::string& token() const { return welcome_.token(); }

  // The lease's id. Throws if it is refused. `ttl` zero: as configured.
  uint64_t Acquire(const std::string& name, const std::string& request_id = {},
                   std::chrono::nanoseconds ttl = {}) const {
    client::Rpc rpc(directory_, boot_id(), token());
    v1::AcquireWeightsRequest request;
    request.set_name(name);
    request.set_request_id(request_id);
    if (ttl.count() > 0) client::ToProto(ttl, request.mutable_ttl());
    v1::AcquireWeightsResponse response;
    const absl::Status status =
        rpc.Call(rpc.leases(), &v1::LeaseService::Stub::AcquireWeights, request, &response, Soon());
    if (!status.ok()) throw std::runtime_error(status.ToString());
    return response.lease().lease_id();
  }

  // Why the lease was not renewed, or the whole call refused; empty if it was.
  std::string Renew(uint64_t lease) const { return RenewAs(boot_id(), token(), lease); }
  // The same in the name of any session.
  std::string RenewAs(const std::string& boot_id, const std::string& token, uint64_t lease) const {
    client::Rpc rpc(directory_, boot_id, token);
    v1::RenewLeasesRequest request;
    request.add_lease_ids(lease);
    v1::RenewLeasesResponse response;
    const absl::Status status =
        rpc.Call(rpc.leases(), &v1::LeaseService::Stub::RenewLeases, request, &response, Soon());
    return status.ok() ? response.renewals(0).reason() : client::ErrorReason(status);
  }

  // Why the lease, or what the request was granted, was not released; empty if it was.
  std::string Release(uint64_t lease) const {
    v1::ReleaseLeaseRequest request;
    request.set_lease_id(lease);
    return Release(request);
  }
  std::string Release(const v1::ReleaseLeaseRequest& request) const {
    client::Rpc rpc(directory_, boot_id(), token());
    v1::ReleaseLeaseResponse response;
    return client::ErrorReason(
        rpc.Call(rpc.leases(), &v1::LeaseService::Stub::ReleaseLease, request, &response, Soon()));
  }

  // Fetches all of a lease's memory; the serial of the share.
  uint64_t Fetch(uint64_t lease, std::vector<UniqueFd>& fds) {
    return handle_.FetchAll(LeaseId(lease), fds);
  }

 private:
  static client::Deadline Soon() { return client::Deadline(std::chrono::seconds(30)); }

  const std::string directory_;
  HandleClient handle_;
  const v1::Welcome welcome_;
};

}  // namespace tenure
