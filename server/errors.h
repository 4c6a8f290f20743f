#pragma once

#include <grpcpp/support/status.h>

#include "core/base/status.h"

namespace tenure {

// The value that names a refusal; see RefusalLog.
inline constexpr char kRefusalIdValue[] = "refusal_id";

// The status that goes out over gRPC: the code by one table, the message, and for errors made by
// tenure::Error a google.rpc.Status in the details with one ErrorInfo of domain "tenure", its
// reason and values. All of it is kept small enough for the 8 KiB that gRPC allows trailers. If the
// error has the value kRefusalIdValue, its message ends with that.
grpc::Status ToGrpcStatus(const Status& status);

}  // namespace tenure
