#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/unique_fd.h"

namespace tenure {
namespace {

std::string ErrnoText(int error) { return std::generic_category().message(error); }

Status OpenError(const std::string& path, int error) {
  if (error == ENOENT || error == ENOTDIR || error == ELOOP) {
    return Error(Reason::kFileNotFound, absl::StrCat("no such file: ", path), {{"path", path}});
  }
  // Says nothing about the file.
  const bool out_of_fds = error == EMFILE || error == ENFILE;
  return Error(out_of_fds ? Reason::kBackend : Reason::kFileUnreadable,
               absl::StrCat("cannot open file: ", path, ": ", ErrnoText(error)), {{"path", path}});
}

// The kernel's own name for what an open descriptor refers to.
std::string DescriptorPath(int fd) { return absl::StrCat("/proc/self/fd/", fd); }

bool IsUnder(const std::string& path, const std::string& root) {
  if (root == "/") return true;
  return path.size() > root.size() && path.compare(0, root.size(), root) == 0 &&
         path[root.size()] == '/';
}

class PosixFile final : public ReadableFile {
 public:
  PosixFile(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}

  const std::string& path() const override { return path_; }

  StatusOr<FileStat> Stat() const override {
    struct stat st {};
    if (::fstat(fd_.get(), &st) != 0) {
      return Error(Reason::kFileUnreadable,
                   absl::StrCat("cannot stat file: ", path_, ": ", ErrnoText(errno)),
                   {{"path", path_}});
    }
    return FileStat{.device = st.st_dev,
                    .inode = st.st_ino,
                    .size = Bytes(static_cast<uint64_t>(st.st_size)),
                    .mtime_ns = st.st_mtim.tv_sec * 1'000'000'000 + st.st_mtim.tv_nsec};
  }

  Status ReadAt(Bytes offset, std::span<std::byte> into) const override {
    while (!into.empty()) {
      const ssize_t got =
          ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset.count()));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) {
        return Error(Reason::kFileUnreadable,
                     absl::StrCat("cannot read file: ", path_, " at offset ", offset.count(), ": ",
                                  ErrnoText(errno)),
                     {{"path", path_}});
      }
      if (got == 0) {
        return Error(Reason::kFileChanged,
                     absl::StrCat("file ends early: ", path_, " at offset ", offset.count()),
                     {{"path", path_}});
      }
      offset += Bytes(static_cast<uint64_t>(got));
      into = into.subspan(static_cast<size_t>(got));
    }
    return absl::OkStatus();
  }

 private:
  const UniqueFd fd_;
  const std::string path_;
};

class PosixFileLayer final : public FileLayer {
 public:
  // An O_PATH open neither waits nor touches what it finds; the kernel then names what was found,
  // and only a regular file inside the root is opened for reading, through the same descriptor.
  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                               const std::string& root) override {
    const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
    if (!found.valid()) return OpenError(path, errno);
    std::array<char, PATH_MAX> canonical{};
    const std::string descriptor = DescriptorPath(found.get());
    const ssize_t length = ::readlink(descriptor.c_str(), canonical.data(), canonical.size());
    if (length < 0) return OpenError(path, errno);
    std::string resolved(canonical.data(), static_cast<size_t>(length));
    if (!IsUnder(resolved, root)) {
      return Error(Reason::kPathOutsideRoots,
                   absl::StrCat("path leads outside the model root ", root, ": ", path),
                   {{"path", path}, {"root", root}});
    }
    struct stat st {};
    if (::fstat(found.get(), &st) != 0) return OpenError(path, errno);
    if (!S_ISREG(st.st_mode)) {
      return Error(Reason::kInvalidCheckpoint, absl::StrCat("not a regular file: ", path),
                   {{"path", path}});
    }
    UniqueFd fd(::open(descriptor.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return OpenError(path, errno);
    return std::make_unique<PosixFile>(std::move(fd), std::move(resolved));
  }

  Kind KindOf(const std::string& path) override {
    struct stat st {};
    if (::stat(path.c_str(), &st) != 0) return Kind::kMissing;
    if (S_ISREG(st.st_mode)) return Kind::kFile;
    return S_ISDIR(st.st_mode) ? Kind::kDirectory : Kind::kOther;
  }

  StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(directory.c_str()), &::closedir);
    if (dir == nullptr) return OpenError(directory, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") names.push_back(name);
      errno = 0;
    }
    if (errno != 0) return OpenError(directory, errno);
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

std::unique_ptr<FileLayer> MakePosixFileLayer() { return std::make_unique<PosixFileLayer>(); }

}  // namespace tenure
