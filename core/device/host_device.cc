#include "core/device/host_device.h"

#include <absl/strings/str_cat.h>
#include <array>
#include <fstream>
#include <limits.h>
#include <unistd.h>
#include <utility>

#include "core/base/check.h"
#include "core/base/digest.h"
#include "core/device/host_memory.h"
#include "core/device/host_segment.h"
#include "core/device/huge_pages.h"
#include "core/device/pin_watch.h"

namespace tenure {
namespace {

// Huge pages or not, so that the sizes of Segments do not depend on it.
constexpr Bytes kGranule = kHugePage;

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

  StatusOr<Segment> CreateSegment(Bytes size) override {
    TENURE_CHECK(!size.zero() && (size % kGranule).zero());
    if (huge_pages_ != HugePages::kOff) {
      auto backing = MakeHostSegment(size, /*huge=*/true, tally_, pins_);
      if (backing.ok()) return Segment(*std::move(backing));
      if (huge_pages_ == HugePages::kRequire) return backing.status();
    }
    TENURE_RETURN_IF_ERROR(CheckAvailable(size));
    TENURE_ASSIGN_OR_RETURN(auto backing, MakeHostSegment(size, /*huge=*/false, tally_, pins_));
    return Segment(std::move(backing));
  }

  BackendCounters counters() const override { return tally_.Read(); }

  std::optional<Bytes> stranded() const override {
    if (!pins_.works()) return std::nullopt;
    return pins_.pinned();
  }
  void UpdateStranded() override { pins_.Look(); }

 private:
  // A memfd knows no limit of its own: asked for more than there is, the kernel goes on until it
  // kills somebody. Where nobody can tell what there is, the kernel decides.
  Status CheckAvailable(Bytes size) const {
    const StatusOr<Bytes> available = memory_.Available();
    if (!available.ok() || size <= *available) return absl::OkStatus();
    return Error(Reason::kBackend,
                 absl::StrCat("cannot create a segment on ", info_.name, ": needs ",
                              FormatBytes(size), ", available ", FormatBytes(*available)),
                 {{"device", info_.name},
                  {"bytes", absl::StrCat(size.count())},
                  {"available_bytes", absl::StrCat(available->count())}});
  }

  const DeviceInfo info_;
  const HugePages huge_pages_;
  const HostMemory memory_;
  HostTally tally_;
  PinWatch pins_;
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
