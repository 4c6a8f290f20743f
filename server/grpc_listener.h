#pragma once

#include <grpcpp/server_builder.h>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "server/socket_listener.h"

namespace tenure {

// Takes the connections of a gRPC server, in a thread of its own. gRPC's own listener never takes
// another one after it ran out of file descriptors once; this one hangs up on whoever is first in
// line and goes on. Thread-compatible.
class GrpcListener {
 public:
  // To be called before the server is built, whose listener this becomes.
  explicit GrpcListener(grpc::ServerBuilder& builder);
  // Stops.
  ~GrpcListener();
  GrpcListener(const GrpcListener&) = delete;
  GrpcListener& operator=(const GrpcListener&) = delete;

  // Listens at `path`; fails as SocketListener::Listen does. REQUIRES: the server was started, and
  // Start was not called before.
  Status Start(const std::string& path, mode_t mode, std::optional<gid_t> group);
  // Takes no connection any more, and removes the path. Those that were taken go on.
  void Stop();

 private:
  void Run();

  const std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> server_;
  UniqueFd stop_;  // readable from Stop on
  std::optional<SocketListener> listener_;
  std::thread thread_;
};

}  // namespace tenure
