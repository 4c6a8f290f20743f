#pragma once

#include <absl/status/status.h>
#include <grpcpp/support/status.h>

namespace tenure::client {

// The same status with what errors.h reads: google.rpc.ErrorInfo, as far as the daemon sent it.
absl::Status FromRpc(const grpc::Status& status);

// True if it cannot be known what became of the call: it was cut off, not refused.
bool EndedWithoutReply(const absl::Status& status);

// True if the call met another daemon than the one it was for, which did nothing.
bool MeantAnotherDaemon(const absl::Status& status);

}  // namespace tenure::client
