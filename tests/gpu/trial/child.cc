#include "tests/gpu/trial/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/emulated_driver/fd_message.h"

namespace tenure::trial {

void Send(int socket, const std::string& text, int fd) {
  if (!emulated::Send(socket, text, fd)) throw std::runtime_error("nobody hears \"" + text + "\"");
}

Message Receive(int socket, const std::string& expected) {
  emulated::Message message;
  if (!emulated::Receive(socket, message)) {
    throw std::runtime_error("the other process ended before \"" + expected + "\"");
  }
  if (message.text != expected) throw std::runtime_error(message.text);
  return {.text = message.text, .fd = std::move(message.fd)};
}

ProcessEnd::ProcessEnd(pid_t pid) : pidfd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {
  if (!pidfd_.valid()) throw std::runtime_error("the kernel has no pidfds");
}

bool ProcessEnd::Happened(Duration patience) const {
  pollfd end{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
  const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  return poll(&end, 1, static_cast<int>(wait)) == 1;
}

Child::Child(const std::string& role, std::vector<std::string> arguments, const std::string& temp) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error("no socket pair");
  }
  socket_.Reset(ends[0]);
  const UniqueFd other(ends[1]);
  fcntl(other.get(), F_SETFD, 0);
  std::vector<std::string> command = {"/proc/self/exe", "--as", role, "--socket",
                                      std::to_string(other.get())};
  command.insert(command.end(), arguments.begin(), arguments.end());
  program_ = std::make_unique<Program>(std::move(command), temp + "/" + role);
  end_.emplace(program_->pid());
}

void Child::Kill() const { kill(program_->pid(), SIGKILL); }

}  // namespace tenure::trial
