#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"

namespace tenure {

// A file whose byte at each offset follows from its seed and that offset, and whose reads do what a
// test says. Thread-safe.
class ScriptedFile final : public ReadableFile {
 public:
  struct Read {
    Bytes offset;
    std::span<std::byte> into;
    std::thread::id thread;
  };

  explicit ScriptedFile(uint64_t seed, Bytes size = GiB(1))
      : seed_(seed), size_(size), path_("scripted-" + std::to_string(seed)) {}

  // Called at the start of the n-th read, n from 0: may wait; an error is what the read answers.
  std::function<Status(size_t)> on_read = [](size_t) { return absl::OkStatus(); };

  std::byte ByteAt(Bytes offset) const {
    const uint64_t mixed = (offset.count() + seed_ * 0x9E3779B97F4A7C15U) * 0xBF58476D1CE4E5B9U;
    return static_cast<std::byte>(mixed >> 56);
  }

  // The reads begun so far.
  std::vector<Read> reads() const {
    const std::lock_guard lock(mutex_);
    return reads_;
  }

  const std::string& path() const override { return path_; }
  StatusOr<FileStat> Stat() const override { return FileStat{.size = size_}; }
  Status ReadAt(Bytes offset, std::span<std::byte> into) const override {
    size_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      number = reads_.size();
      reads_.push_back({offset, into, std::this_thread::get_id()});
    }
    TENURE_RETURN_IF_ERROR(on_read(number));
    for (size_t i = 0; i < into.size(); ++i) {
      const Bytes at = offset + Bytes(i);
      if (at >= size_) return Error(Reason::kFileChanged, "file ends early", {{"path", path_}});
      into[i] = ByteAt(at);
    }
    return absl::OkStatus();
  }

 private:
  const uint64_t seed_;
  const Bytes size_;
  const std::string path_;
  mutable std::mutex mutex_;
  mutable std::vector<Read> reads_;
};

// Lets nobody through until it is opened. Thread-safe.
class Turnstile {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    ++waited_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }
  // Returns when `count` callers have come to the gate.
  void AwaitArrivals(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waited_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  int waited_ = 0;
};

}  // namespace tenure
