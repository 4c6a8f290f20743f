#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "client/cpp/deadline.h"
#include "client/cpp/error.h"
#include "client/cpp/fork_guard.h"
#include "client/cpp/handle_session.h"
#include "client/cpp/held_lease.h"
#include "client/cpp/plan_cache.h"
#include "client/cpp/release_queue.h"
#include "client/cpp/rpc.h"
#include "client/cpp/survivors.h"
#include "client/cpp/tensor_table.h"
#include "tenure/client.h"

namespace tenure::client {

// What a Client and its leases share: the session on the handle socket, the gRPC channel, and the
// tensor tables. Lives until the Client and the last of its leases are gone. Thread-safe.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // In a forked child the last owner leaves it as it is, but for closing the connection: neither
  // its thread nor gRPC's exist there.
  ~Connection();

  static absl::StatusOr<std::shared_ptr<Connection>> Open(const ConnectOptions& options,
                                                          std::shared_ptr<Survivors> survivors,
                                                          Deadline deadline);

  // OK if calls make sense: FAILED_PRECONDITION in a forked child, UNAVAILABLE once the daemon is
  // gone.
  absl::Status Usable() const;
  bool forked() const { return fork_guard_.forked(); }

  HandleSession& session() { return *session_; }
  Rpc& rpc() { return rpc_; }

  // A call that grants nothing.
  template <typename Stub, typename Request, typename Reply>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply, Deadline deadline,
                    const std::stop_token& cancel = {}) {
    TENURE_CLIENT_RETURN_IF_ERROR(Usable());
    return Explain(rpc_.Call(stub, method, request, reply, deadline, cancel));
  }

  absl::StatusOr<WeightLease> Acquire(const AcquireRequest& request, Deadline deadline,
                                      const std::stop_token& cancel);
  absl::StatusOr<LoadResult> Load(const LoadRequest& request, Deadline deadline,
                                  const std::stop_token& cancel);

  // As Client::Watch.
  absl::Status Watch(const std::string& name, const std::string& device,
                     const std::function<bool(const ModelEvent&)>& on_event, Deadline deadline,
                     const std::stop_token& cancel);

  // All pages. The architecture's key goes to `architecture_key` unless that is null.
  absl::StatusOr<std::vector<TensorPlace>> ListTensors(const std::string& name, uint64_t revision,
                                                       const std::string& device, Deadline deadline,
                                                       const std::stop_token& cancel,
                                                       std::string* architecture_key = nullptr);

  // Whole segments of the session's pool on a device, mapped.
  struct GrownPool {
    PoolSpec pool;
    std::shared_ptr<PoolMapping> mapping;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  absl::StatusOr<GrownPool> GrowPool(const v1::GrowPoolRequest& request, Deadline deadline,
                                     const std::stop_token& cancel);

  // A buffer of the session's pool on a device, with the segments that it lies in mapped.
  struct GrantedBuffer {
    uint64_t pool_id = 0;
    uint64_t offset = 0;
    uint64_t buffer_id = 0;
  };
  absl::StatusOr<GrantedBuffer> AcquireBuffer(const v1::AcquireBuffersRequest& request,
                                              Deadline deadline, const std::stop_token& cancel);
  // Behind the caller's back.
  void ReleaseBuffers(const std::vector<uint64_t>& buffer_ids);

  // The plans that this client has got of the daemon.
  const std::shared_ptr<PlanCache>& plans() const { return plans_; }

  // The object of a lease is done reading. Tells the daemon, now or later.
  absl::Status Release(const HeldLease& lease);

  // Adds to a status that came without a word of the daemon what is known of the session.
  absl::Status Explain(absl::Status status) const;

 private:
  Connection(const ConnectOptions& options, const std::string& directory,
             std::unique_ptr<HandleSession> session);

  std::string NextRequestId();
  // A call for runtime memory, under an id by which that is given back if no reply comes. When it
  // was made.
  template <typename Method, typename Request, typename Reply>
  absl::StatusOr<Instant> AskForMemory(Method method, Request request, Reply* reply,
                                       Deadline deadline, const std::stop_token& cancel);
  // Maps what was granted. After an error the lease is released.
  absl::StatusOr<WeightLease> Bind(const v1::WeightLease& granted, Instant called_at,
                                   Deadline deadline, const std::stop_token& cancel);
  // Behind the caller's back, of a lease that is not held.
  void ReleaseLater(uint64_t lease_id);
  absl::StatusOr<std::shared_ptr<const TensorTable>> TableOf(const v1::WeightLease& granted,
                                                             Deadline deadline,
                                                             const std::stop_token& cancel);

  const ForkGuard fork_guard_;
  const std::string directory_;
  const Duration timeout_;
  std::atomic<uint64_t> requests_ = 0;
  TensorTableCache tables_;
  std::shared_ptr<PlanCache> plans_;  // set by Open
  std::unique_ptr<HandleSession> session_;
  Rpc rpc_;
  ReleaseQueue releases_;
};

}  // namespace tenure::client
