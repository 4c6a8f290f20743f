#pragma once

#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
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

  // One buffer of each size. Throws if they are refused.
  v1::AcquireBuffersResponse AcquireBuffers(const std::vector<uint64_t>& sizes,
                                            std::chrono::nanoseconds wait = {}) const {
    v1::AcquireBuffersRequest request;
    for (const uint64_t size : sizes) request.add_buffers()->set_size(size);
    if (wait.count() > 0) client::ToProto(wait, request.mutable_wait());
    v1::AcquireBuffersResponse response;
    Call(&v1::LeaseService::Stub::AcquireBuffers, request, response);
    return response;
  }
  void ReleaseBuffers(const v1::AcquireBuffersResponse& granted) const {
    v1::ReleaseBuffersRequest request;
    for (const v1::Buffer& buffer : granted.buffers()) {
      request.mutable_buffers()->add_buffer_ids(buffer.buffer_id());
    }
    v1::ReleaseBuffersResponse response;
    Call(&v1::LeaseService::Stub::ReleaseBuffers, request, response);
    if (response.unreleased_size() > 0) throw std::runtime_error(response.DebugString());
  }
  // Whole segments. Throws if they are refused.
  v1::GrowPoolResponse GrowPool(uint64_t bytes) const {
    v1::GrowPoolRequest request;
    request.set_bytes(bytes);
    v1::GrowPoolResponse response;
    Call(&v1::LeaseService::Stub::GrowPool, request, response);
    return response;
  }
  void ShrinkPool(uint64_t pool, const std::vector<uint64_t>& offsets) const {
    v1::ShrinkPoolRequest request;
    request.set_pool_id(pool);
    for (const uint64_t offset : offsets) request.add_offsets(offset);
    v1::ShrinkPoolResponse response;
    Call(&v1::LeaseService::Stub::ShrinkPool, request, response);
  }
  // The fds of a pool's segments, in one batch; the serials of their shares. Throws if they are
  // refused.
  std::vector<uint64_t> FetchPool(uint64_t pool, const std::vector<uint64_t>& offsets,
                                  std::vector<UniqueFd>& fds) {
    v1::ClientPacket packet;
    packet.mutable_fetch_pool()->set_pool_id(pool);
    for (const uint64_t offset : offsets) packet.mutable_fetch_pool()->add_offsets(offset);
    handle_.Say(packet);
    std::optional<HandleClient::Heard> heard = handle_.Hear();
    if (!heard.has_value() || !heard->packet.has_pool_batch()) {
      throw std::runtime_error("no batch of a pool");
    }
    std::vector<uint64_t> serials;
    for (const v1::PoolSegment& segment : heard->packet.pool_batch().segments()) {
      serials.push_back(segment.share_serial());
    }
    std::move(heard->fds.begin(), heard->fds.end(), std::back_inserter(fds));
    handle_.SayAck(serials.back(), static_cast<uint32_t>(serials.size()));
    return serials;
  }

  // Fetches all of a lease's memory; the serial of the share.
  uint64_t Fetch(uint64_t lease, std::vector<UniqueFd>& fds) {
    return handle_.FetchAll(LeaseId(lease), fds);
  }

 private:
  template <typename Request, typename Response>
  void Call(grpc::Status (v1::LeaseService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
            const Request& request, Response& response) const {
    client::Rpc rpc(directory_, boot_id(), token());
    const absl::Status status = rpc.Call(rpc.leases(), method, request, &response, Soon());
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }

  static client::Deadline Soon() { return client::Deadline(std::chrono::seconds(30)); }

  const std::string directory_;
  HandleClient handle_;
  const v1::Welcome welcome_;
};

}  // namespace tenure
