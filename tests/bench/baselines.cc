#include "tests/bench/baselines.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fcntl.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include "core/base/check.h"

namespace tenure::bench {
namespace {

constexpr size_t kPiece = size_t{4} << 20;
constexpr size_t kPage = 4096;

// Calls `work(begin, end)` for pieces of [0, size), on two threads.
template <typename Work>
void OnTwoThreads(size_t size, const Work& work) {
  std::atomic<size_t> next = 0;
  const auto run = [&] {
    for (size_t begin = next.fetch_add(kPiece); begin < size; begin = next.fetch_add(kPiece)) {
      work(begin, std::min(begin + kPiece, size));
    }
  };
  std::thread other(run);
  run();
  other.join();
}

}  // namespace

SharedMemory::SharedMemory(Bytes size) {
  const int fd = memfd_create("tenure-bench", MFD_CLOEXEC);
  void* base = MAP_FAILED;
  if (fd >= 0 && ftruncate(fd, static_cast<off_t>(size.count())) == 0) {
    base = mmap(nullptr, size.count(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  close(fd);
  if (base == MAP_FAILED) throw std::runtime_error("no shared memory of " + FormatBytes(size));
  view_ = {static_cast<std::byte*>(base), size.count()};
}

SharedMemory::~SharedMemory() { munmap(view_.data(), view_.size()); }

void SharedMemory::Touch() const {
  OnTwoThreads(view_.size(), [this](size_t begin, size_t end) {
    for (size_t at = begin; at < end; at += kPage) {
      *static_cast<volatile std::byte*>(&view_[at]) = std::byte{1};
    }
  });
}

CachedFile::CachedFile(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  struct stat file {};
  if (fd_ < 0 || fstat(fd_, &file) != 0) throw std::runtime_error("cannot open " + path);
  // What is not on the disk yet would be written while others are measured.
  if (fsync(fd_) != 0) throw std::runtime_error("cannot write back " + path);
  const auto size = static_cast<size_t>(file.st_size);
  void* const base = mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (base == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  view_ = {static_cast<const std::byte*>(base), size};
}

CachedFile::~CachedFile() {
  munmap(const_cast<std::byte*>(view_.data()), view_.size());
  close(fd_);
}

void CachedFile::Read(Bytes offset, std::span<std::byte> into) const {
  std::atomic<bool> failed = false;
  OnTwoThreads(into.size(), [&](size_t begin, size_t end) {
    while (begin < end && !failed) {
      const ssize_t got =
          pread(fd_, into.data() + begin, end - begin, static_cast<off_t>(offset.count() + begin));
      if (got <= 0) failed = true;
      begin += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
  });
  if (failed) throw std::runtime_error("cannot read the file");
}

void Copy(std::span<const std::byte> from, std::span<std::byte> to) {
  TENURE_CHECK(from.size() <= to.size());
  OnTwoThreads(from.size(), [&](size_t begin, size_t end) {
    memcpy(to.data() + begin, from.data() + begin, end - begin);
  });
}

}  // namespace tenure::bench
