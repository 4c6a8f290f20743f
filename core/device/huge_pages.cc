#include "core/device/huge_pages.h"

#include <absl/strings/str_cat.h>
#include <cerrno>
#include <fstream>
#include <linux/memfd.h>
#include <optional>
#include <signal.h>
#include <string>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace tenure {
namespace {

// What the child says by its exit code; above kSucceeded it is an errno.
constexpr int kSucceeded = 0;

// Runs in a forked child of a process that may have threads: system calls only.
[[noreturn]] void TouchOnePage() {
  ::signal(SIGBUS, SIG_DFL);  // a sanitizer or a test may have set a handler
  constexpr rlimit kNoCore = {.rlim_cur = 0, .rlim_max = 0};
  ::setrlimit(RLIMIT_CORE, &kNoCore);
  const int fd = ::memfd_create("tenure-probe", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB);
  if (fd < 0) ::_exit(errno);
  if (::ftruncate(fd, static_cast<off_t>(kHugePage.count())) != 0) ::_exit(errno);
  void* page = ::mmap(nullptr, kHugePage.count(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED) ::_exit(errno);
  *static_cast<volatile char*>(page) = 1;
  ::_exit(kSucceeded);
}

std::string PoolCount(const char* file) {
  std::ifstream in(absl::StrCat("/sys/kernel/mm/hugepages/hugepages-2048kB/", file));
  std::string count;
  return in >> count ? count : "unknown";
}

std::string CauseOf(int wait_status) {
  if (WIFSIGNALED(wait_status)) return absl::StrCat("signal ", WTERMSIG(wait_status));
  return std::generic_category().message(WEXITSTATUS(wait_status));
}

Status Unusable(const std::string& cause) {
  const std::string total = PoolCount("nr_hugepages");
  const std::string free = PoolCount("free_hugepages");
  return Error(
      Reason::kBackend,
      absl::StrCat("no huge page can be used: ", cause, "; the pool of ", FormatBytes(kHugePage),
                   " pages (vm.nr_hugepages) has ", total, ", free ", free),
      {{"huge_pages_total", total}, {"huge_pages_free", free}, {"cause", cause}});
}

}  // namespace

Status ProbeHugePages() {
  const pid_t child = ::fork();
  if (child < 0) return Unusable(absl::StrCat("fork: ", std::generic_category().message(errno)));
  if (child == 0) TouchOnePage();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno == EINTR) continue;
    return Unusable(absl::StrCat("waitpid: ", std::generic_category().message(errno)));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == kSucceeded) return absl::OkStatus();
  return Unusable(CauseOf(status));
}

}  // namespace tenure
