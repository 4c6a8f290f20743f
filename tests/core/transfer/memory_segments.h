#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/device/device.h"

namespace tenure {

// What the bytes of a MemorySegment are before anybody writes them.
inline constexpr std::byte kUntouched{0xEE};

// A Segment of plain memory and of any size, which cannot be exported.
class MemoryBacking final : public Segment::Backing {
 public:
  explicit MemoryBacking(Bytes size) : bytes_(size.count(), kUntouched) {}
  Bytes size() const override { return Bytes(bytes_.size()); }
  std::span<std::byte> host_view() const override { return bytes_; }
  StatusOr<UniqueFd> Export() const override {
    return Error(Reason::kBackend, "plain memory has no fd");
  }

 private:
  mutable std::vector<std::byte> bytes_;
};

// The Device of such Segments.
class MemoryDevice final : public Device {
 public:
  const DeviceInfo& info() const override { return info_; }
  StatusOr<std::vector<Segment>> CreateSegments(SegmentUse, std::span<const Bytes> sizes) override {
    std::vector<Segment> segments;
    for (const Bytes size : sizes) segments.emplace_back(std::make_unique<MemoryBacking>(size));
    return segments;
  }
  StatusOr<std::unique_ptr<SegmentWriter>> OpenWriter() override { return MakeDirectWriter(); }
  Bytes foreign() const override { return {}; }
  std::optional<Bytes> stranded(SegmentUse) const override { return std::nullopt; }
  Status Look() override { return absl::OkStatus(); }
  BackendCounters counters() const override { return {}; }

 private:
  const DeviceInfo info_{.name = "memory:0",
                         .backend = "memory",
                         .uuid = "memory",
                         .total = GiB(1),
                         .granule = Bytes(1)};
};

inline std::vector<Segment> MemorySegments(const std::vector<Bytes>& sizes) {
  return *MemoryDevice().CreateSegments(SegmentUse::kWeights, sizes);
}

// The Region that the Segments form, side by side.
inline std::vector<std::byte> RegionBytes(std::span<const Segment> segments) {
  std::vector<std::byte> bytes;
  for (const Segment& segment : segments) {
    const std::span<std::byte> view = segment.host_view();
    bytes.insert(bytes.end(), view.begin(), view.end());
  }
  return bytes;
}

}  // namespace tenure
