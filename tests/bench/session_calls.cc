#include "tests/bench/session_calls.h"

#include <utility>

namespace tenure::bench {

SessionCalls::SessionCalls(const std::string& directory, const std::string& program) {
  auto session = client::HandleSession::Open(directory + "/handle.sock", program, "calls",
                                             client::Deadline(kPatience),
                                             std::make_shared<client::Survivors>());
  if (!session.ok()) throw std::runtime_error(session.status().ToString());
  session_ = *std::move(session);
  rpc_ = std::make_unique<client::Rpc>(directory, session_->boot_id(), session_->token());
}

void SessionCalls::Empty() const {
  v1::RenewLeasesResponse response;
  Call(&v1::LeaseService::Stub::RenewLeases, v1::RenewLeasesRequest(), response);
}

}  // namespace tenure::bench
