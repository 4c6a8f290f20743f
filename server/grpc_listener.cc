#include "server/grpc_listener.h"

#include <grpcpp/security/server_credentials.h>
#include <poll.h>
#include <pthread.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"

namespace tenure {
namespace {

constexpr int kTryAgainAfterMs = 50;

}  // namespace

GrpcListener::GrpcListener(grpc::ServerBuilder& builder)
    : server_(builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
          grpc::InsecureServerCredentials())) {}

GrpcListener::~GrpcListener() { Stop(); }

Status GrpcListener::Start(const std::string& path, mode_t mode, std::optional<gid_t> group) {
  TENURE_CHECK(!thread_.joinable());
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop_.valid()) return Error(Reason::kBackend, "cannot serve the gRPC socket: eventfd");
  TENURE_ASSIGN_OR_RETURN(SocketListener listener,
                          SocketListener::Listen(SocketKind::kStream, path, mode, group));
  listener_.emplace(std::move(listener));
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void GrpcListener::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(stop_.get(), &one, sizeof one);
  thread_.join();
  listener_.reset();
}

void GrpcListener::Run() {
  pthread_setname_np(pthread_self(), "tenure-accept");
  bool stuck = false;
  while (true) {
    pollfd states[] = {{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                       {.fd = stuck ? -1 : listener_->fd(), .events = POLLIN, .revents = 0}};
    poll(states, 2, stuck ? kTryAgainAfterMs : -1);
    if (states[0].revents != 0) return;
    SocketListener::Acceptance acceptance = listener_->Accept();
    stuck = acceptance.outcome == SocketListener::Outcome::kStuck;
    if (acceptance.outcome == SocketListener::Outcome::kAccepted) {
      grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters connection;
      connection.fd = acceptance.socket.Release();
      server_->HandleNewConnection(&connection);
    } else if (acceptance.outcome == SocketListener::Outcome::kRefused) {
      spdlog::warn("refused a gRPC connection: the daemon is out of file descriptors");
    }
  }
}

}  // namespace tenure
