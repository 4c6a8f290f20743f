#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/mutex.h"

namespace tenure {

// The machine's files, whose payload reads can be held at a gate, counted, and made to fail. Reads
// of less than `kPayload` bytes (headers) pass untouched. Thread-safe.
class GatedFiles final : public FileLayer {
 public:
  static constexpr size_t kPayload = 512;

  StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path,
                                               const std::string& root) override {
    TENURE_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files_->Open(path, root));
    return std::make_unique<GatedFile>(*this, std::move(file));
  }
  Kind KindOf(const std::string& path) override { return files_->KindOf(path); }
  StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    return files_->List(directory);
  }

  // Payload reads of files whose path contains `part` wait until Release. Empty: none.
  void Hold(const std::string& part) {
    const MutexLock lock(mutex_);
    held_ = part;
    changed_.NotifyAll();
  }
  void Release() { Hold(""); }
  // Returns once a read waits at the gate.
  void AwaitHeldRead() {
    const MutexLock lock(mutex_);
    while (waiting_ == 0) changed_.Wait(mutex_);
  }

  // The `k`-th payload read from now on fails, k = 1, 2, ...; 0: none.
  void FailRead(int k) { reads_until_failure_ = k; }

  uint64_t payload_bytes() const { return payload_bytes_; }

 private:
  class GatedFile final : public ReadableFile {
   public:
    GatedFile(GatedFiles& layer, std::unique_ptr<ReadableFile> file)
        : layer_(layer), file_(std::move(file)) {}
    const std::string& path() const override { return file_->path(); }
    StatusOr<FileStat> Stat() const override { return file_->Stat(); }
    Status ReadAt(Bytes offset, std::span<std::byte> into) const override {
      if (into.size() >= kPayload) TENURE_RETURN_IF_ERROR(layer_.PassGate(path(), into.size()));
      return file_->ReadAt(offset, into);
    }

   private:
    GatedFiles& layer_;
    const std::unique_ptr<ReadableFile> file_;
  };

  Status PassGate(const std::string& path, size_t bytes) {
    payload_bytes_ += bytes;
    if (reads_until_failure_ > 0 && --reads_until_failure_ == 0) {
      return Error(Reason::kFileUnreadable, "the file layer was told to fail");
    }
    const MutexLock lock(mutex_);
    ++waiting_;
    changed_.NotifyAll();
    while (!held_.empty() && path.find(held_) != std::string::npos) changed_.Wait(mutex_);
    --waiting_;
    return absl::OkStatus();
  }

  const std::unique_ptr<FileLayer> files_ = MakePosixFileLayer();
  std::atomic<uint64_t> payload_bytes_ = 0;
  std::atomic<int> reads_until_failure_ = 0;
  Mutex mutex_;
  CondVar changed_;
  std::string held_ ABSL_GUARDED_BY(mutex_);
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tenure
