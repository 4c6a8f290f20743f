#include "tests/e2e/lease_holder.h"

#include <signal.h>
#include <stdexcept>
#include <sys/wait.h>

#include "tests/client/eventually.h"

namespace tenure {

LeaseHolder::LeaseHolder(const Tenured& daemon, const std::string& name, const std::string& path,
                         const std::string& mode, int ttl_ms)
    : process_(std::make_unique<Program>(
          std::vector<std::string>{LEASE_HOLDER_PATH, daemon.directory(), name, path,
                                   std::to_string(ttl_ms), mode},
          temp_ / "client")),
      pid_(process_->pid()) {
  if (!Eventually([this] { return process_->Out().ends_with("\n"); })) {
    throw std::runtime_error("the client did not get a lease: " + process_->Err());
  }
  const std::string out = process_->Out();
  if (out.starts_with("ready ")) child_ = std::stoi(out.substr(6));
}

LeaseHolder::~LeaseHolder() {
  if (child_ > 0) kill(child_, SIGKILL);
}

void LeaseHolder::Kill() {
  kill(pid_, SIGKILL);
  process_->Wait();
}

void LeaseHolder::Pause() {
  kill(pid_, SIGSTOP);
  siginfo_t stopped{};
  waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED);
}

void LeaseHolder::Resume() { kill(pid_, SIGCONT); }

}  // namespace tenure
