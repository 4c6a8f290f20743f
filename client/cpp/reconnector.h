#pragma once

#include <absl/status/statusor.h>
#include <memory>
#include <mutex>
#include <utility>

#include "client/cpp/connection.h"
#include "client/cpp/deadline.h"
#include "client/cpp/rpc_status.h"
#include "client/cpp/survivors.h"
#include "tenure/client.h"

namespace tenure::client {

// The connection that a Client's calls go through: the first one, and after its daemon is gone the
// next one, made by the first call that needs it. Leases stay with the connection that they came
// from. Thread-safe.
class Reconnector {
 public:
  static absl::StatusOr<std::unique_ptr<Reconnector>> Open(const ConnectOptions& options);

  // Calls `call` with the connection, and once more with a new one if the daemon turns out to be
  // another than that of the connection and has therefore done nothing. The error of connecting
  // anew if that fails; FORKED in a forked child, which never connects.
  template <typename Call>
  auto Run(Deadline deadline, const Call& call) -> decltype(call(std::declval<Connection&>())) {
    std::shared_ptr<Connection> connection = last();
    if (!connection->Usable().ok()) {
      TENURE_CLIENT_ASSIGN_OR_RETURN(connection, Replace(connection, deadline));
    }
    auto result = call(*connection);
    if (!MeantAnotherDaemon(StatusOf(result))) return result;
    TENURE_CLIENT_ASSIGN_OR_RETURN(connection, Replace(connection, deadline));
    return call(*connection);
  }

  // The connection now, of a living daemon or not.
  std::shared_ptr<Connection> last() const;

 private:
  Reconnector(ConnectOptions options, std::shared_ptr<Survivors> survivors,
              std::shared_ptr<Connection> first);

  static const absl::Status& StatusOf(const absl::Status& status) { return status; }
  template <typename Value>
  static absl::Status StatusOf(const absl::StatusOr<Value>& result) {
    return result.status();
  }

  // A connection that is not `old`: another caller's, or a new one.
  absl::StatusOr<std::shared_ptr<Connection>> Replace(const std::shared_ptr<Connection>& old,
                                                      Deadline deadline);

  const ConnectOptions options_;
  const std::shared_ptr<Survivors> survivors_;
  std::timed_mutex connecting_;  // held by whoever connects; before mutex_
  mutable std::mutex mutex_;
  std::shared_ptr<Connection> connection_;  // guarded by mutex_
};

}  // namespace tenure::client
