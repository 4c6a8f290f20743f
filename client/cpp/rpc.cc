#include "client/cpp/rpc.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>
#include <utility>

namespace tenure::client {

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& directory) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  // A proxy in the environment is not for a local socket.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel("unix:" + directory + "/grpc.sock",
                                   grpc::InsecureChannelCredentials(), arguments);
}

Rpc::Rpc(const std::string& directory, std::string boot_id, std::string token)
    : boot_id_(std::move(boot_id)),
      token_(std::move(token)),
      channel_(MakeChannel(directory)),
      models_(channel_),
      leases_(channel_),
      admin_(channel_),
      plans_(channel_) {}

void Rpc::Prepare(grpc::ClientContext& context, Deadline deadline) const {
  context.set_deadline(gpr_time_from_nanos(deadline.left().count(), GPR_TIMESPAN));
  context.AddMetadata("tenure-boot-id", boot_id_);
  context.AddMetadata("tenure-session-token", token_);
}

}  // namespace tenure::client
