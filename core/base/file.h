#pragma once

// The one way in which the core reads files, so that a test can hold, fail or change any read.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/clock.h"
#include "core/base/status.h"
#include "core/base/units.h"

namespace tenure {

// What tells one version of a file from another.
struct FileStat {
  uint64_t device = 0;
  uint64_t inode = 0;
  Bytes size;
  int64_t mtime_ns = 0;
  friend bool operator==(const FileStat&, const FileStat&) = default;
};

// An open regular file. Stays the same file when its name is replaced or removed. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  // The file's canonical path, for messages.
  virtual const std::string& path() const = 0;
  // The state now, not at open. FILE_UNREADABLE if the file layer fails.
  virtual StatusOr<FileStat> Stat() const = 0;
  // Fills all of `into` from `offset` on. FILE_UNREADABLE names path, offset and cause; a file that
  // ends before is FILE_CHANGED.
  virtual Status ReadAt(Bytes offset, std::span<std::byte> into) const = 0;
};

// Thread-safe.
class FileLayer {
 public:
  virtual ~FileLayer() = default;

  // Opens a regular file, following symbolic links. The file must lie, after all links are
  // resolved, under `root`, itself canonical: PATH_OUTSIDE_ROOTS otherwise. Never waits on a FIFO
  // or a device: whatever is no regular file is INVALID_CHECKPOINT. FILE_NOT_FOUND for a missing
  // file or a dangling link, BACKEND if the process has no file descriptors left.
  virtual StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                                       const std::string& root) = 0;

  enum class Kind { kMissing, kFile, kDirectory, kOther };
  // What `path` is after its links are followed, without opening it.
  virtual Kind KindOf(const std::string& path) = 0;
  // The names in a directory, sorted bytewise, without "." and "..".
  virtual StatusOr<std::vector<std::string>> List(const std::string& directory) = 0;
};

// The machine's file system.
std::unique_ptr<FileLayer> MakePosixFileLayer();

}  // namespace tenure
