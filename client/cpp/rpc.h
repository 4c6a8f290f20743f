#pragma once

#include <absl/status/status.h>
#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <memory>
#include <stop_token>
#include <string>
#include <tenure/v1/admin.grpc.pb.h>
#include <tenure/v1/lease.grpc.pb.h>
#include <tenure/v1/model.grpc.pb.h>
#include <tenure/v1/plan.grpc.pb.h>

#include "client/cpp/deadline.h"
#include "client/cpp/rpc_status.h"

namespace tenure::client {

// A channel to `grpc.sock` in `directory`, of its own: a new client does not wait out the back-off
// of one whose daemon died.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& directory);

// The session's gRPC side: its metadata and a deadline on every call. Thread-safe.
class Rpc {
 public:
  Rpc(const std::string& directory, std::string boot_id, std::string token);

  v1::ModelService::Stub& models() { return models_; }
  v1::LeaseService::Stub& leases() { return leases_; }
  v1::AdminService::Stub& admin() { return admin_; }
  v1::PlanService::Stub& plans() { return plans_; }

  // One unary call: Call(rpc.models(), &v1::ModelService::Stub::GetModel, ...). Returns by
  // `deadline`.
  template <typename Stub, typename Request, typename Reply>
  absl::Status Call(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
                    const Request& request, Reply* reply, Deadline deadline,
                    const std::stop_token& cancel = {}) {
    grpc::ClientContext context;
    Prepare(context, deadline);
    const std::stop_callback on_stop(cancel, [&context] { context.TryCancel(); });
    return FromRpc((stub.*method)(&context, request, reply));
  }

  // Sets the metadata and the deadline.
  void Prepare(grpc::ClientContext& context, Deadline deadline) const;

 private:
  const std::string boot_id_;
  const std::string token_;
  const std::shared_ptr<grpc::Channel> channel_;
  v1::ModelService::Stub models_;
  v1::LeaseService::Stub leases_;
  v1::AdminService::Stub admin_;
  v1::PlanService::Stub plans_;
};

}  // namespace tenure::client
