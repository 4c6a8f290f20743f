#include "tests/emulated_driver/peer.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sstream>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/emulated_driver/fd_message.h"

extern char** environ;

namespace tenure::emulated {
namespace {

// The environment with some variables replaced or added.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& changes) {
  std::vector<std::string> all = changes;
  for (char** each = environ; *each != nullptr; ++each) {
    const std::string variable = *each;
    const std::string name = variable.substr(0, variable.find('=') + 1);
    bool changed = false;
    for (const std::string& change : changes) changed |= change.starts_with(name);
    if (!changed) all.push_back(variable);
  }
  return all;
}

}  // namespace

Peer::Peer(const EmulatedGpu& machine, const std::vector<std::string>& more_environment) {
  // Of two values of a variable the first counts.
  std::vector<std::string> changes = more_environment;
  for (std::string& variable : machine.Environment()) changes.push_back(std::move(variable));
  std::vector<std::string> environment = EnvironmentWith(changes);
  // All of it is made before fork: a child of a process with threads must not allocate.
  std::vector<char*> variables;
  for (std::string& each : environment) variables.push_back(each.data());
  variables.push_back(nullptr);
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    throw std::runtime_error("no socketpair");
  }
  socket_.Reset(sockets[0]);
  const UniqueFd theirs(sockets[1]);
  const std::string number = std::to_string(theirs.get());
  const char* const arguments[] = {PEER_PATH, number.c_str(), nullptr};
  pid_ = fork();
  if (pid_ == 0) {
    fcntl(theirs.get(), F_SETFD, 0);
    execve(arguments[0], const_cast<char* const*>(arguments), variables.data());
    _exit(127);
  }
  if (pid_ < 0) throw std::runtime_error("fork failed");
}

Peer::~Peer() {
  if (pid_ > 0) Kill();
}

Peer::Reply Peer::Do(const std::string& command, int fd) {
  Ask(command, fd);
  return Answer();
}

void Peer::Ask(const std::string& command, int fd) {
  if (!Send(socket_.get(), command, fd)) throw std::runtime_error("the peer is gone: " + command);
}

Peer::Reply Peer::Answer() {
  Message message;
  if (!Receive(socket_.get(), message)) throw std::runtime_error("the peer is gone");
  Reply reply;
  std::istringstream words(message.text);
  words >> reply.result;
  for (uint64_t value = 0; words >> value;) reply.values.push_back(value);
  reply.fd = std::move(message.fd);
  return reply;
}

bool Peer::Answered() {
  pollfd readable{socket_.get(), POLLIN, 0};
  return poll(&readable, 1, 0) == 1;
}

void Peer::Kill() {
  kill(pid_, SIGKILL);
  WaitForEnd();
}

int Peer::WaitForEnd() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

}  // namespace tenure::emulated
