// gRPC's standard health check. Its messages are two fields long and in no Debian package's
// headers, so they are written and read here by hand.

#include <google/protobuf/io/coded_stream.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/byte_buffer.h>
#include <string>
#include <vector>

#include "client/cpp/error.h"
#include "client/cpp/rpc.h"
#include "tenure/client.h"

namespace tenure::client {
namespace {

constexpr char kMethod[] = "/grpc.health.v1.Health/Check";
// HealthCheckResponse.status, a varint with field number 1; SERVING is 1.
constexpr uint32_t kStatusTag = 1 << 3;
constexpr uint32_t kServing = 1;

// False also for what does not parse.
bool Serving(const grpc::ByteBuffer& response) {
  std::vector<grpc::Slice> slices;
  if (!response.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  uint32_t status = 0;
  return input.ReadTag() == kStatusTag && input.ReadVarint32(&status) && status == kServing;
}

}  // namespace

absl::StatusOr<bool> CheckHealth(const std::string& directory, std::chrono::nanoseconds timeout) {
  const std::string where = directory.empty() ? DefaultDirectory() : directory;
  grpc::GenericStub stub(MakeChannel(where));
  grpc::ClientContext context;
  context.set_deadline(gpr_time_from_nanos(Deadline(timeout).left().count(), GPR_TIMESPAN));
  grpc::CompletionQueue queue;
  const grpc::ByteBuffer request(nullptr,
                                 0);  // HealthCheckRequest with no service: the whole daemon
  const auto call = stub.PrepareUnaryCall(&context, kMethod, request, &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  if (status.ok()) return Serving(response);
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return MakeError(absl::StatusCode::kUnavailable, kDaemonUnreachable,
                     "no daemon answers in " + where + ": " + status.error_message(),
                     {{"directory", where}});
  }
  return FromRpc(status);
}

}  // namespace tenure::client
