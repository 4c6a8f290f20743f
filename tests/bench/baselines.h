#pragma once

// What the machine does without a daemon: the least that a switch could cost.

#include <cstddef>
#include <span>
#include <string>

#include "core/base/clock.h"
#include "core/base/units.h"

namespace tenure::bench {

// Shared memory like that of a Segment, mapped, and gone with this object. Throws
// std::runtime_error if the system refuses. Thread-compatible.
class SharedMemory {
 public:
  explicit SharedMemory(Bytes size);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::span<std::byte> view() const { return view_; }
  // Writes to each of its pages, on two threads.
  void Touch() const;

 private:
  std::span<std::byte> view_;
};

// A file for reading, mapped as well, all of it brought into the page cache. Throws
// std::runtime_error if that fails. Thread-compatible.
class CachedFile {
 public:
  explicit CachedFile(const std::string& path);
  ~CachedFile();
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;

  std::span<const std::byte> view() const { return view_; }
  // Reads as many bytes as `into` takes, from `offset` on: two threads, pieces of 4 MiB.
  void Read(Bytes offset, std::span<std::byte> into) const;

 private:
  int fd_ = -1;
  std::span<const std::byte> view_;
};

// memcpy on two threads. REQUIRES: `from` is no larger than `to`.
void Copy(std::span<const std::byte> from, std::span<std::byte> to);

// How long `work` takes.
template <typename Work>
Duration TimeOf(const Work& work) {
  const SteadyClock clock;
  const Instant start = clock.Now();
  work();
  return clock.Now() - start;
}

inline double Milliseconds(Duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}
inline double Microseconds(Duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

}  // namespace tenure::bench
