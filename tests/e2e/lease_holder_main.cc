// lease-holder DIRECTORY NAME PATH TTL_MS MODE: loads a model, leases it, says "ready" and waits
// for its end, as a process of its own that tests can stop and kill.
//
//   hold     nothing else
//   fork     a child, whose process id follows "ready", has inherited the connection
//   hang-up  the connection is closed, the memory stays mapped
//   more     leases the model once more, and says so, each time that SIGUSR1 comes
//   verify   compares what is mapped, again and again, with what it was at first; once the lease is
//            lost it says "lost REASON", or "wrong", then what came of a release and of a new lease

#include <chrono>
#include <cstddef>
#include <iostream>
#include <signal.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tenure/client.h"
#include "tests/client/lease_bytes.h"

namespace {

// The process's connections to the socket at `path`.
std::vector<int> ConnectionsTo(const std::string& path) {
  std::vector<int> found;
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_un peer{};
    socklen_t size = sizeof(peer);
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sun_family == AF_UNIX && path == peer.sun_path) found.push_back(fd);
  }
  return found;
}

std::string Outcome(const absl::Status& status) {
  return status.ok() ? "ok" : tenure::ErrorReason(status);
}

void Verify(const tenure::Client& client, const std::string& name, tenure::WeightLease lease) {
  std::vector<std::byte> first(lease.size_bytes());
  bool right = lease.CopyToHost(0, first).ok();
  const auto same = [&first](const tenure::WeightLease& each) {
    return tenure::Shows(each, 0, first);
  };
  right = same(lease) && right;
  std::cout << "ready" << std::endl;
  while (lease.valid()) right = same(lease) && right;
  right = same(lease) && right;
  std::cout << (right ? "lost " + lease.lost_reason() : "wrong") << std::endl;
  std::cout << "release " << Outcome(lease.Release()) << std::endl;
  const auto again = client.Acquire({.name = name});
  const bool right_again = !again.ok() || same(*again);
  std::cout << (right_again ? "again " + Outcome(again.status()) : "wrong") << std::endl;
}

[[noreturn]] void LeaseMore(const tenure::Client& client, const std::string& name,
                            const sigset_t& signals) {
  std::vector<tenure::WeightLease> leases;
  std::cout << "ready" << std::endl;
  while (true) {
    int received = 0;
    sigwait(&signals, &received);
    auto lease = client.Acquire({.name = name});
    std::cout << "more " << Outcome(lease.status()) << std::endl;
    if (lease.ok()) leases.push_back(*std::move(lease));
  }
}

int Run(const std::vector<std::string>& arguments) {
  const std::string& directory = arguments[0];
  const std::string& mode = arguments[4];
  // Blocked before any thread exists.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto client = tenure::Client::Connect({.directory = directory, .program = "lease-holder"});
  if (!client.ok()) {
    std::cerr << client.status() << std::endl;
    return 1;
  }
  auto loaded = client->Load({.name = arguments[1],
                              .path = arguments[2],
                              .acquire = true,
                              .lease_ttl = std::chrono::milliseconds(std::stoi(arguments[3]))});
  if (!loaded.ok()) {
    std::cerr << loaded.status() << std::endl;
    return 1;
  }
  if (mode == "fork") {
    const pid_t child = fork();
    while (child == 0) pause();
    std::cout << "ready " << child << std::endl;
  } else if (mode == "hang-up") {
    for (const int fd : ConnectionsTo(directory + "/handle.sock")) shutdown(fd, SHUT_RDWR);
    std::cout << "ready" << std::endl;
  } else if (mode == "more") {
    LeaseMore(*client, arguments[1], signals);
  } else if (mode == "verify") {
    Verify(*client, arguments[1], *std::move(loaded->lease));
  } else {
    std::cout << "ready" << std::endl;
  }
  while (true) pause();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  return Run(std::vector<std::string>(argv + 1, argv + argc));
}
