#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "tests/support/faulty_steps.h"

namespace tenure {

// What a file does when its step comes.
enum class FileFault {
  kError,    // opening, asking and reading fail
  kShort,    // the file is half as long as it was
  kChanged,  // the file is newer than it was; only asking shows it
};

// Files, any of whose steps can go wrong. Thread-safe, but for `set_fault`.
class FaultyFiles final : public FileLayer {
 public:
  // Both outlive the layer.
  FaultyFiles(FileLayer& files, FaultySteps& steps) : files_(files), steps_(steps) {}

  // REQUIRES: no file is in use.
  void set_fault(FileFault fault) { fault_ = fault; }

  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                               const std::string& root) override {
    if (fault_ == FileFault::kError && steps_.Fails()) return Failed("open");
    TENURE_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_.Open(path, root));
    return std::make_unique<FaultyFile>(*this, std::move(file));
  }
  Kind KindOf(const std::string& path) override { return files_.KindOf(path); }
  StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    if (fault_ == FileFault::kError && steps_.Fails()) return Failed("list");
    return files_.List(directory);
  }

 private:
  class FaultyFile final : public ReadableFile {
   public:
    FaultyFile(FaultyFiles& layer, std::unique_ptr<ReadableFile> file)
        : layer_(layer), file_(std::move(file)) {}

    const std::string& path() const override { return file_->path(); }

    StatusOr<FileStat> Stat() const override {
      TENURE_ASSIGN_OR_RETURN(FileStat stat, file_->Stat());
      if (!layer_.steps_.Fails()) return stat;
      switch (layer_.fault_) {
        case FileFault::kError:
          return Failed("stat");
        case FileFault::kShort:
          stat.size = Bytes(stat.size.count() / 2);
          return stat;
        case FileFault::kChanged:
          ++stat.mtime_ns;
          return stat;
      }
      TENURE_CHECK(false);
    }

    Status ReadAt(Bytes offset, std::span<std::byte> into) const override {
      if (layer_.fault_ == FileFault::kChanged || !layer_.steps_.Fails()) {
        return file_->ReadAt(offset, into);
      }
      if (layer_.fault_ == FileFault::kError) return Failed("read");
      TENURE_RETURN_IF_ERROR(file_->ReadAt(offset, into.first(into.size() / 2)));
      return Error(Reason::kFileChanged, "the file layer was told that the file ends");
    }

   private:
    FaultyFiles& layer_;
    const std::unique_ptr<ReadableFile> file_;
  };

  static Status Failed(std::string_view step) {
    return Error(Reason::kFileUnreadable, "the file layer was told to fail: " + std::string(step));
  }

  FileLayer& files_;
  FaultySteps& steps_;
  FileFault fault_ = FileFault::kError;
};

}  // namespace tenure
