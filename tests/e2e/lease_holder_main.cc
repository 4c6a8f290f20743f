// lease-holder DIRECTORY NAME PATH TTL_MS MODE: loads a model, leases it, says "ready" and waits
// for its end, as a process of its own that tests can stop and kill.
//
//   hold     nothing else
//   fork     a child, whose process id follows "ready", has inherited the connection
//   hang-up  the connection is closed, the memory stays mapped

#include <chrono>
#include <iostream>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "tenure/client.h"

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

int Run(const std::vector<std::string>& arguments) {
  const std::string& directory = arguments[0];
  const std::string& mode = arguments[4];
  auto client = tenure::Client::Connect({.directory = directory, .program = "lease-holder"});
  if (!client.ok()) {
    std::cerr << client.status() << std::endl;
    return 1;
  }
  const auto loaded =
      client->Load({.name = arguments[1],
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
