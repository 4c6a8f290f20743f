#include "core/device/host_device.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits.h>
#include <optional>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/device/host_memory.h"
#include "core/device/host_segment.h"
#include "core/device/huge_pages.h"
#include "core/device/pin_watch.h"
#include "core/device/segment_tally.h"

namespace tenure {
namespace {

// What the daemon leaves for itself beside its Segments: under a memory limit the kernel kills it
// for any page that is not to be had. Of that, to map a Segment takes 8 bytes for each 4 KiB that
// are touched.
constexpr Bytes kHeadroom = MiB(16);
constexpr uint64_t kBytesPerMapByte = 512;

// Huge pages or not, so that the sizes of Segments do not depend on it.
constexpr Bytes kGranule = kHugePage;

constexpr size_t kCreateThreads = 2;

// The same over restarts of daemon and machine. Not the machine's id itself, which is confidential.
std::string HostUuid(const std::string& device_name) {
  std::string machine;
  std::ifstream("/etc/machine-id") >> machine;
  if (machine.empty()) {
    std::array<char, HOST_NAME_MAX + 1> host{};
    if (::gethostname(host.data(), host.size() - 1) == 0) machine = host.data();
  }
  Digester digester;
  digester.Add(machine);
  digester.Add(device_name);
  return absl::StrCat("host-", digester.Finish().ToHex());
}

class HostDevice final : public Device {
 public:
  HostDevice(const HostDeviceOptions& options, HugePages huge_pages)
      : info_{.name = options.name,
              .backend = "host",
              .uuid = HostUuid(options.name),
              .total = options.total,
              .granule = kGranule},
        huge_pages_(huge_pages) {}

  const DeviceInfo& info() const override { return info_; }

  // On several threads: the kernel clears the memory meanwhile.
  StatusOr<std::vector<Segment>> CreateSegments(SegmentUse use,
                                                std::span<const Bytes> sizes) override {
    for (const Bytes size : sizes) TENURE_CHECK(!size.zero() && (size % kGranule).zero());
    std::vector<std::optional<Segment>> created(sizes.size());
    std::vector<Status> errors(std::min(kCreateThreads, sizes.size()));
    std::atomic<size_t> next = 0;
    std::atomic<bool> failed = false;
    const auto create = [&](Status& error) {
      for (size_t i = next++; i < sizes.size() && !failed; i = next++) {
        StatusOr<Segment> segment = Create(use, sizes[i]);
        if (segment.ok()) {
          created[i] = *std::move(segment);
        } else {
          error = segment.status();
          failed = true;
        }
      }
    };
    std::vector<std::thread> threads;
    for (size_t i = 1; i < errors.size(); ++i) threads.emplace_back(create, std::ref(errors[i]));
    if (!errors.empty()) create(errors[0]);
    for (std::thread& thread : threads) thread.join();
    for (const Status& error : errors) TENURE_RETURN_IF_ERROR(error);

    std::vector<Segment> segments;
    segments.reserve(created.size());
    for (std::optional<Segment>& segment : created) segments.push_back(*std::move(segment));
    return segments;
  }

  StatusOr<std::unique_ptr<SegmentWriter>> OpenWriter() override { return MakeDirectWriter(); }

  BackendCounters counters() const override { return tally_.Read(); }
  Bytes foreign() const override { return {}; }
  std::optional<Bytes> stranded(SegmentUse use) const override {
    const PinWatch& pins = pins_[static_cast<size_t>(use)];
    if (!pins.works()) return std::nullopt;
    return pins.pinned();
  }
  Status Look() override {
    for (PinWatch& pins : pins_) pins.Look();
    return absl::OkStatus();
  }

 private:
  StatusOr<Segment> Create(SegmentUse use, Bytes size) {
    PinWatch& pins = pins_[static_cast<size_t>(use)];
    if (huge_pages_ != HugePages::kOff) {
      auto backing = MakeHostSegment(use, size, /*huge=*/true, tally_, pins);
      if (backing.ok()) return Segment(*std::move(backing));
      if (huge_pages_ == HugePages::kRequire) return backing.status();
    }
    TENURE_RETURN_IF_ERROR(Announce(size));
    StatusOr<std::unique_ptr<Segment::Backing>> backing =
        MakeHostSegment(use, size, /*huge=*/false, tally_, pins);
    const MutexLock lock(mutex_);
    announced_ -= size;
    settled_.NotifyAll();
    if (!backing.ok()) return backing.status();
    return Segment(*std::move(backing));
  }

  // A memfd knows no limit of its own: asked for more than there is, the kernel goes on until it
  // kills somebody. Where nobody can tell what there is, the kernel decides. What other threads are
  // about to take is not there any more; how much of it they have taken is only known once they are
  // done, so a Segment that would not fit beside it waits for them.
  Status Announce(Bytes size) {
    const MutexLock lock(mutex_);
    while (true) {
      const StatusOr<Bytes> available = memory_.Available();
      const Bytes left = SaturatingSub(available.value_or(Bytes(UINT64_MAX)), Headroom());
      if (size <= SaturatingSub(left, announced_)) break;
      if (announced_.zero()) return Unavailable(size, left);
      settled_.Wait(mutex_);
    }
    announced_ += size;
    return absl::OkStatus();
  }

  Bytes Headroom() const {
    const BackendCounters counters = tally_.Read();
    const Bytes alive = counters.bytes_created - counters.bytes_destroyed;
    return kHeadroom + Bytes(alive.count() / kBytesPerMapByte);
  }

  Status Unavailable(Bytes size, Bytes left) const {
    return Error(Reason::kBackend,
                 absl::StrCat("cannot create a segment on ", info_.name, ": needs ",
                              FormatBytes(size), ", available ", FormatBytes(left)),
                 {{"device", info_.name},
                  {"bytes", absl::StrCat(size.count())},
                  {"available_bytes", absl::StrCat(left.count())}});
  }

  const DeviceInfo info_;
  const HugePages huge_pages_;
  const HostMemory memory_;
  SegmentTally tally_;
  std::array<PinWatch, kSegmentUses> pins_;

  Mutex mutex_;
  CondVar settled_;                          // a Segment that was announced exists, or never will
  Bytes announced_ ABSL_GUARDED_BY(mutex_);  // of Segments that are being created
};

}  // namespace

StatusOr<std::unique_ptr<Device>> MakeHostDevice(const HostDeviceOptions& options) {
  HugePages huge_pages = options.huge_pages;
  if (huge_pages != HugePages::kOff) {
    const Status probed = ProbeHugePages();
    if (!probed.ok() && huge_pages == HugePages::kRequire) return probed;
    if (!probed.ok()) huge_pages = HugePages::kOff;
  }
  return std::make_unique<HostDevice>(options, huge_pages);
}

StatusOr<Bytes> AvailableHostMemory() { return HostMemory().Available(); }

}  // namespace tenure
