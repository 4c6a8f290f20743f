#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "core/base/mutex.h"
#include "core/device/device.h"
#include "core/device/pin_watch.h"
#include "tests/support/faulty_steps.h"

namespace tenure {

// A Device of 4 KiB granules on memfds, so that thousands of Regions cost nothing. It can be told
// to fail a creation, and to hold creations, exports or destructions at a gate. Thread-safe.
class SmallDevice final : public Device {
 public:
  static constexpr Bytes kGranule = KiB(4);

  explicit SmallDevice(const std::string& name, Bytes total = MiB(64))
      : info_{.name = name,
              .backend = "host",
              .uuid = "small-" + name,
              .total = total,
              .granule = kGranule} {}

  const DeviceInfo& info() const override { return info_; }

  StatusOr<std::vector<Segment>> CreateSegments(SegmentUse use,
                                                std::span<const Bytes> sizes) override {
    std::vector<Segment> segments;
    for (const Bytes size : sizes) {
      TENURE_ASSIGN_OR_RETURN(Segment segment, Create(use, size));
      segments.push_back(std::move(segment));
    }
    return segments;
  }

  StatusOr<std::unique_ptr<SegmentWriter>> OpenWriter() override { return MakeDirectWriter(); }
  Bytes foreign() const override { return {}; }
  std::optional<Bytes> stranded(SegmentUse use) const override {
    return pins_[static_cast<size_t>(use)].pinned();
  }
  Status Look() override {
    for (PinWatch& pins : pins_) pins.Look();
    return lost_ ? Error(Reason::kDeviceLost, "the device was told to be lost") : absl::OkStatus();
  }

  BackendCounters counters() const override {
    const MutexLock lock(mutex_);
    return counters_;
  }

  // The `k`-th creation from now on fails, k = 1, 2, ...; 0: none.
  void FailCreation(int k) { creations_until_failure_ = k; }

  // From now on it does not serve any more.
  void Lose() { lost_ = true; }

  // While held, a creation, an export or a destruction does not return.
  void HoldCreations(bool hold) { creations_.Hold(hold); }
  void HoldExports(bool hold) { exports_.Hold(hold); }
  void HoldDestructions(bool hold) { destructions_.Hold(hold); }
  // Return true once one waits at its gate, false if none comes.
  [[nodiscard]] bool AwaitHeldCreation() { return creations_.AwaitArrival(); }
  [[nodiscard]] bool AwaitHeldExport() { return exports_.AwaitArrival(); }
  [[nodiscard]] bool AwaitHeldDestruction() { return destructions_.AwaitArrival(); }

 private:
  StatusOr<Segment> Create(SegmentUse use, Bytes size) {
    if (creations_until_failure_ > 0 && --creations_until_failure_ == 0) {
      return Error(Reason::kBackend, "the backend was told to fail");
    }
    creations_.Pass();
    const int fd = ::memfd_create("tenure-test", MFD_CLOEXEC);
    if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(size.count())) != 0) {
      return Error(Reason::kBackend, "no memfd");
    }
    void* const base = ::mmap(nullptr, size.count(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    TENURE_CHECK(base != MAP_FAILED);
    const MutexLock lock(mutex_);
    ++counters_.segments_created;
    counters_.bytes_created += size;
    return Segment(
        std::make_unique<Memory>(*this, pins_[static_cast<size_t>(use)], UniqueFd(fd),
                                 std::span(static_cast<std::byte*>(base), size.count())));
  }

  class Memory final : public Segment::Backing {
   public:
    Memory(SmallDevice& device, PinWatch& pins, UniqueFd fd, std::span<std::byte> view)
        : device_(device), pins_(pins), fd_(std::move(fd)), view_(view) {}
    ~Memory() override {
      device_.destructions_.Pass();
      ::munmap(view_.data(), view_.size());
      pins_.LetGo(std::move(fd_), Bytes(view_.size()));
      const MutexLock lock(device_.mutex_);
      ++device_.counters_.segments_destroyed;
      device_.counters_.bytes_destroyed += Bytes(view_.size());
    }
    Bytes size() const override { return Bytes(view_.size()); }
    std::span<std::byte> host_view() const override { return view_; }
    StatusOr<UniqueFd> Export() const override {
      device_.exports_.Pass();
      UniqueFd copy(::dup(fd_.get()));
      if (!copy.valid()) return Error(Reason::kBackend, "no fd");
      const MutexLock lock(device_.mutex_);
      ++device_.counters_.exports;
      return copy;
    }

   private:
    SmallDevice& device_;
    PinWatch& pins_;
    UniqueFd fd_;
    const std::span<std::byte> view_;
  };

  const DeviceInfo info_;
  std::atomic<int> creations_until_failure_ = 0;
  std::atomic<bool> lost_ = false;
  Turnstile creations_;
  Turnstile exports_;
  Turnstile destructions_;
  std::array<PinWatch, kSegmentUses> pins_;
  mutable Mutex mutex_;
  BackendCounters counters_ ABSL_GUARDED_BY(mutex_);
};

// The inode behind an exported fd: tells one Segment from another.
inline ino_t InodeOf(const UniqueFd& fd) {
  struct stat st {};
  TENURE_CHECK(::fstat(fd.get(), &st) == 0);
  return st.st_ino;
}

}  // namespace tenure
