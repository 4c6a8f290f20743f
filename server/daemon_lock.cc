#include "server/daemon_lock.h"

#include <array>
#include <errno.h>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

namespace tenure {
namespace {

std::string Because(int error) { return std::generic_category().message(error); }

Status MakeDirectory(const std::string& directory) {
  struct stat there {};
  if (stat(directory.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) return absl::OkStatus();
    return Error(Reason::kInvalidRequest,
                 "the directory for the sockets is no directory: " + directory);
  }
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  // The process's umask must not shut clients out.
  if (!error && chmod(directory.c_str(), 0755) != 0) error.assign(errno, std::generic_category());
  if (!error) return absl::OkStatus();
  return Error(Reason::kBackend,
               "cannot make the directory for the sockets: " + directory + ": " + error.message());
}

// "pid 123, boot id 0af3...", as far as the lock's holder has written it.
std::string HolderOf(int file) {
  std::array<char, 128> text{};
  const ssize_t size = pread(file, text.data(), text.size(), 0);
  const std::string line(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  const size_t space = line.find(' ');
  const size_t end = line.find('\n');
  if (space == std::string::npos || end == std::string::npos || end < space) return "just starting";
  return "pid " + line.substr(0, space) + ", boot id " + line.substr(space + 1, end - space - 1);
}

}  // namespace

StatusOr<DaemonLock> DaemonLock::Take(const std::string& directory, const std::string& boot_id) {
  TENURE_RETURN_IF_ERROR(MakeDirectory(directory));
  const std::string path = directory + "/tenured.lock";
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.valid()) {
    return Error(Reason::kBackend, "cannot open the lock file: " + path + ": " + Because(errno));
  }
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::AlreadyExistsError("already running (" + HolderOf(file.get()) +
                                      "): " + directory);
    }
    return Error(Reason::kBackend, "cannot lock the lock file: " + path + ": " + Because(errno));
  }
  const std::string text = std::to_string(getpid()) + " " + boot_id + "\n";
  if (ftruncate(file.get(), 0) != 0 ||
      pwrite(file.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    return Error(Reason::kBackend, "cannot write the lock file: " + path + ": " + Because(errno));
  }
  return DaemonLock(std::move(file));
}

DaemonLock::~DaemonLock() {
  // Else the next daemon, before it has written its own, would be taken for this one.
  if (file_.valid() && ftruncate(file_.get(), 0) != 0) return;
}

Status DaemonLock::ClearSocketPath(const std::string& path) const {
  struct stat there {};
  if (lstat(path.c_str(), &there) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Error(Reason::kBackend,
                 "cannot look at the socket's path: " + path + ": " + Because(errno));
  }
  if (!S_ISSOCK(there.st_mode)) {
    return Error(Reason::kInvalidRequest, "something that is no socket is at the path: " + path);
  }
  if (unlink(path.c_str()) == 0) return absl::OkStatus();
  return Error(Reason::kBackend, "cannot remove the old socket: " + path + ": " + Because(errno));
}

}  // namespace tenure
