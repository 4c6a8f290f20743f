#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/device/segment.h"

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

inline std::vector<Segment> MemorySegments(const std::vector<Bytes>& sizes) {
  std::vector<Segment> segments;
  segments.reserve(sizes.size());
  for (const Bytes size : sizes) segments.emplace_back(std::make_unique<MemoryBacking>(size));
  return segments;
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
