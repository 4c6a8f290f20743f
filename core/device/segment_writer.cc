#include "core/device/segment_writer.h"

#include <algorithm>

#include "core/base/check.h"

namespace tenure {
namespace {

void CheckInside(const Segment& segment, Range range) {
  TENURE_CHECK(!range.empty() && range.end() <= segment.size());
}

std::span<std::byte> Part(const Segment& segment, Range range) {
  return segment.host_view().subspan(range.begin().count(), range.size().count());
}

class DirectWriter final : public SegmentWriter {
 public:
  StatusOr<std::span<std::byte>> Prepare(const Segment& segment, Range target) override {
    return Part(segment, target);
  }
  Status Commit() override { return absl::OkStatus(); }
  Status Finish() override { return absl::OkStatus(); }

 private:
  Status QueueCopy(const Segment& source, Range from, const Segment& target, Bytes to) override {
    std::ranges::copy(Part(source, from), Part(target, Range(to, to + from.size())).begin());
    return absl::OkStatus();
  }
  Status QueueFill(const Segment& segment, Range target, std::byte value) override {
    std::ranges::fill(Part(segment, target), value);
    return absl::OkStatus();
  }
};

}  // namespace

Status SegmentWriter::CopyAcross(const Segment& source, Range from, const Segment& target,
                                 Bytes to) {
  CheckInside(source, from);
  const Range into(to, to + from.size());
  CheckInside(target, into);
  TENURE_CHECK(&source != &target || from.end() <= into.begin() || into.end() <= from.begin());
  return QueueCopy(source, from, target, to);
}

Status SegmentWriter::Fill(const Segment& segment, Range target, std::byte value) {
  CheckInside(segment, target);
  return QueueFill(segment, target, value);
}

std::unique_ptr<SegmentWriter> MakeDirectWriter() { return std::make_unique<DirectWriter>(); }

}  // namespace tenure
