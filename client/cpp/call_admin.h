#pragma once

#include <chrono>

#include "client/cpp/connection.h"
#include "client/cpp/error.h"
#include "client/cpp/reconnector.h"

namespace tenure::client {

// A unary call of AdminService that grants nothing: CallAdmin(reconnector, timeout, options,
// &v1::AdminService::Stub::Trim, request, response). `timeout` counts where the options have none.
template <typename Request, typename Reply>
absl::Status CallAdmin(Reconnector& reconnector, std::chrono::nanoseconds timeout,
                       const CallOptions& options,
                       grpc::Status (v1::AdminService::Stub::*method)(grpc::ClientContext*,
                                                                      const Request&, Reply*),
                       const Request& request, Reply& reply) {
  const Deadline deadline(options.timeout.value_or(timeout));
  return reconnector.Run(deadline, [&](Connection& connection) {
    return connection.Call(connection.rpc().admin(), method, request, &reply, deadline,
                           options.cancel);
  });
}

}  // namespace tenure::client
