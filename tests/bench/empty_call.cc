#include "tests/bench/empty_call.h"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace tenure::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

}  // namespace

EmptyCall::EmptyCall(const std::string& directory, const std::string& program) {
  auto session = client::HandleSession::Open(directory + "/handle.sock", program, "empty",
                                             client::Deadline(kPatience),
                                             std::make_shared<client::Survivors>());
  if (!session.ok()) throw std::runtime_error(session.status().ToString());
  session_ = *std::move(session);
  rpc_ = std::make_unique<client::Rpc>(directory, session_->boot_id(), session_->token());
}

void EmptyCall::Do() const {
  v1::RenewLeasesResponse response;
  const absl::Status status =
      rpc_->Call(rpc_->leases(), &v1::LeaseService::Stub::RenewLeases, v1::RenewLeasesRequest(),
                 &response, client::Deadline(kPatience));
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

}  // namespace tenure::bench
