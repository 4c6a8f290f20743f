#pragma once

#include <memory>
#include <string>

#include "client/cpp/handle_session.h"
#include "client/cpp/rpc.h"

namespace tenure::bench {

// A session beside the library's, for the emptiest call there is: RenewLeases of nothing, with the
// same metadata as any. Throws std::runtime_error if that fails. Thread-compatible.
class EmptyCall {
 public:
  EmptyCall(const std::string& directory, const std::string& program);

  void Do() const;

 private:
  std::unique_ptr<client::HandleSession> session_;
  std::unique_ptr<client::Rpc> rpc_;
};

}  // namespace tenure::bench
