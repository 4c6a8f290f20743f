#include "tests/e2e/buffer_holder.h"

#include <signal.h>
#include <stdexcept>
#include <sys/wait.h>
#include <utility>
#include <vector>

#include "tests/client/eventually.h"

namespace tenure {

BufferHolder::BufferHolder(const std::string& directory, uint64_t bytes, const std::string& mode)
    : process_(std::vector<std::string>{BUFFER_HOLDER_PATH, directory, std::to_string(bytes), mode},
               temp_ / "client") {
  if (!Eventually([this] { return process_.Out().ends_with("\n"); })) {
    throw std::runtime_error("the client did not get its memory: " + process_.Err());
  }
  const std::string out = process_.Out();
  if (out.starts_with("ready ")) child_ = std::stoi(out.substr(6));
}

BufferHolder::~BufferHolder() { KillChild(); }

void BufferHolder::Kill() {
  kill(pid(), SIGKILL);
  process_.Wait();
}

void BufferHolder::KillChild() {
  if (child_ > 0) kill(std::exchange(child_, 0), SIGKILL);
}

void BufferHolder::Pause() {
  kill(pid(), SIGSTOP);
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid()), &stopped, WSTOPPED);
}

void BufferHolder::Resume() { kill(pid(), SIGCONT); }
void BufferHolder::Nudge() { kill(pid(), SIGUSR1); }

}  // namespace tenure
