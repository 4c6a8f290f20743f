#include "tests/gpu/trial/part_process.h"

#include <errno.h>
#include <fcntl.h>
#include <fstream>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/unique_fd.h"

namespace tenure::trial {
namespace {

sigset_t StopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  return signals;
}

// REQUIRES: AdoptOrphans was called.
int SignalFd() {
  static const sigset_t signals = StopSignals();
  static const UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC));
  return fd.get();
}

pid_t Start(std::vector<std::string>& arguments, int findings) {
  const pid_t parent = getpid();
  std::vector<char*> pointers;
  pointers.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const pid_t pid = fork();
  if (pid < 0) throw std::runtime_error("fork failed");
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kPartFailed);
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  fcntl(findings, F_SETFD, 0);
  execv("/proc/self/exe", pointers.data());
  _exit(kPartFailed);
}

// Ends whatever is left of what a part started: each that dies makes its children ours.
void EndChildren() {
  while (true) {
    std::ifstream children("/proc/self/task/" + std::to_string(gettid()) + "/children");
    for (pid_t child = 0; children >> child;) kill(child, SIGKILL);
    if (waitpid(-1, nullptr, 0) < 0 && errno == ECHILD) return;
  }
}

// Hears lines until the part closes its end: kFinished.
Ending Listen(int fd, Instant deadline, const std::function<void(const std::string&)>& hear) {
  const SteadyClock clock;
  std::string text;
  char buffer[4096];
  pollfd sources[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                      {.fd = SignalFd(), .events = POLLIN, .revents = 0}};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock.Now()).count();
    if (left <= 0) return Ending::kTimedOut;
    if (poll(sources, 2, static_cast<int>(left)) < 0 && errno != EINTR) return Ending::kFailed;
    if ((sources[1].revents & POLLIN) != 0) return Ending::kInterrupted;
    if (sources[0].revents == 0) continue;
    const ssize_t size = read(fd, buffer, sizeof(buffer));
    if (size <= 0) return Ending::kFinished;
    text.append(buffer, static_cast<size_t>(size));
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
      hear(text.substr(0, end));
      text.erase(0, end + 1);
    }
  }
}

}  // namespace

void AdoptOrphans() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const sigset_t signals = StopSignals();
  sigprocmask(SIG_BLOCK, &signals, nullptr);
}

Ending RunPart(std::vector<std::string> arguments, Duration limit,
               const std::function<void(const std::string&)>& hear) {
  const Instant deadline = After(SteadyClock().Now(), limit);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  arguments.push_back(std::to_string(to.get()));
  const pid_t pid = Start(arguments, to.get());
  to.Reset();
  const Ending heard = Listen(from.get(), deadline, hear);
  int status = 0;
  if (heard == Ending::kFinished) {
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
  } else {
    kill(pid, SIGKILL);
  }
  EndChildren();
  if (heard != Ending::kFinished) return heard;
  if (!WIFEXITED(status)) return Ending::kFailed;
  if (WEXITSTATUS(status) == kPartCannotRun) return Ending::kCannotRun;
  return WEXITSTATUS(status) == 0 ? Ending::kFinished : Ending::kFailed;
}

}  // namespace tenure::trial
