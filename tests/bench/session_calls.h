#pragma once

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "client/cpp/handle_session.h"
#include "client/cpp/rpc.h"

namespace tenure::bench {

// A session beside the library's, which makes calls as they are, with the same metadata as any. All
// throw std::runtime_error if the daemon refuses. Thread-compatible.
class SessionCalls {
 public:
  SessionCalls(const std::string& directory, const std::string& program);

  // The emptiest call there is: RenewLeases of nothing.
  void Empty() const;

  template <typename Request, typename Reply>
  void Call(grpc::Status (v1::LeaseService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Reply*),
            const Request& request, Reply& reply) const {
    const absl::Status status =
        rpc_->Call(rpc_->leases(), method, request, &reply, client::Deadline(kPatience));
    if (!status.ok()) throw std::runtime_error(status.ToString());
  }

 private:
  static constexpr auto kPatience = std::chrono::seconds(30);

  std::unique_ptr<client::HandleSession> session_;
  std::unique_ptr<client::Rpc> rpc_;
};

}  // namespace tenure::bench
