#pragma once

// What the kernel says this process holds.

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

namespace tenure {

// File descriptors that are open.
inline size_t OpenFds() {
  const std::filesystem::directory_iterator fds("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(fds), end(fds)));
}

inline constexpr char kSegmentName[] = "memfd:tenure-weights";

// Maps of Segments.
inline size_t SegmentMaps() {
  size_t count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    count += line.find(kSegmentName) != std::string::npos ? 1U : 0U;
  }
  return count;
}

// Descriptors of Segments. While there are none, and no maps, their memory is the kernel's again.
inline size_t SegmentFds() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    count += target.find(kSegmentName) != std::string::npos ? 1U : 0U;
  }
  return count;
}

// Files that the process watches with inotify.
inline size_t InotifyWatches() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fdinfo")) {
    std::ifstream lines(entry.path());
    for (std::string line; std::getline(lines, line);) {
      count += line.starts_with("inotify wd:") ? 1U : 0U;
    }
  }
  return count;
}

// Lowers a limit of this process for its own lifetime.
class SoftLimit {
 public:
  SoftLimit(decltype(RLIMIT_NOFILE) resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    const rlimit lowered = {.rlim_cur = value, .rlim_max = before_.rlim_max};
    ::setrlimit(resource_, &lowered);
  }
  ~SoftLimit() { ::setrlimit(resource_, &before_); }
  SoftLimit(const SoftLimit&) = delete;
  SoftLimit& operator=(const SoftLimit&) = delete;

 private:
  const decltype(RLIMIT_NOFILE) resource_;
  rlimit before_{};
};

// Runs `check` in a forked child: true if it was true there.
inline bool InChild(const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(check() ? 0 : 1);
  int status = 0;
  return child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

}  // namespace tenure
