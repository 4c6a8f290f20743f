#include "client/cpp/reconnector.h"

namespace tenure::client {

absl::StatusOr<std::unique_ptr<Reconnector>> Reconnector::Open(const ConnectOptions& options) {
  auto survivors = std::make_shared<Survivors>();
  TENURE_CLIENT_ASSIGN_OR_RETURN(std::shared_ptr<Connection> first,
                                 Connection::Open(options, survivors, Deadline(options.timeout)));
  return std::unique_ptr<Reconnector>(
      new Reconnector(options, std::move(survivors), std::move(first)));
}

Reconnector::Reconnector(ConnectOptions options, std::shared_ptr<Survivors> survivors,
                         std::shared_ptr<Connection> first)
    : options_(std::move(options)),
      survivors_(std::move(survivors)),
      connection_(std::move(first)) {}

std::shared_ptr<Connection> Reconnector::last() const {
  const std::lock_guard lock(mutex_);
  return connection_;
}

absl::StatusOr<std::shared_ptr<Connection>> Reconnector::Replace(
    const std::shared_ptr<Connection>& old, Deadline deadline) {
  if (old->forked()) return old->Usable();
  const std::unique_lock connecting(connecting_, deadline.at());
  if (!connecting.owns_lock()) {
    return absl::DeadlineExceededError("another call is still connecting to the daemon");
  }
  if (std::shared_ptr<Connection> other = last(); other != old) return other;
  TENURE_CLIENT_ASSIGN_OR_RETURN(std::shared_ptr<Connection> next,
                                 Connection::Open(options_, survivors_, deadline));
  std::shared_ptr<Connection> unused = next;
  {
    const std::lock_guard lock(mutex_);
    connection_.swap(unused);
  }
  return next;
}

}  // namespace tenure::client
