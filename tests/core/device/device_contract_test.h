#pragma once

// What every backend must do, whatever its memory is made of. A backend joins with
//   INSTANTIATE_TEST_SUITE_P(Name, DeviceContractTest, testing::Values(DeviceBackend{...}),
//   BackendName);

#include <algorithm>
#include <cstddef>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "core/device/device.h"

namespace tenure {

inline constexpr std::byte kZero{0};

inline bool AllEqual(std::span<const std::byte> bytes, std::byte value) {
  return std::ranges::all_of(bytes, [=](std::byte byte) { return byte == value; });
}

struct DeviceBackend {
  std::string name;
  // A Device that has at least 256 MiB left.
  std::function<std::unique_ptr<Device>()> make;
  // What somebody sees who got the exported fd and maps `size` bytes of it for reading.
  std::function<std::vector<std::byte>(int fd, Bytes size)> import;
};

inline void PrintTo(const DeviceBackend& backend, std::ostream* out) { *out << backend.name; }
inline std::string BackendName(const testing::TestParamInfo<DeviceBackend>& info) {
  return info.param.name;
}

class DeviceContractTest : public testing::TestWithParam<DeviceBackend> {
 protected:
  DeviceContractTest() : device_(GetParam().make()), granule_(device_->info().granule) {}

  std::vector<std::byte> Import(int fd, Bytes size) const { return GetParam().import(fd, size); }
  uint64_t alive() const {
    const BackendCounters counters = device_->counters();
    return counters.segments_created - counters.segments_destroyed;
  }
  // Puts `value` into every byte, by the way that copies go.
  void Fill(const Segment& segment, std::byte value) {
    FillRange(segment, Range(Bytes(0), segment.size()), value);
  }
  void FillRange(const Segment& segment, Range range, std::byte value) {
    const auto writer = device_->OpenWriter();
    ASSERT_TRUE(writer.ok()) << writer.status();
    Put(**writer, segment, range, value);
    ASSERT_TRUE((*writer)->Finish().ok());
  }
  // Commits `value` for every byte of the range.
  static void Put(SegmentWriter& writer, const Segment& segment, Range range, std::byte value) {
    while (!range.empty()) {
      const auto into = writer.Prepare(segment, range);
      ASSERT_TRUE(into.ok()) << into.status();
      std::ranges::fill(*into, value);
      ASSERT_TRUE(writer.Commit().ok());
      range = Range(range.begin() + Bytes(into->size()), range.end());
    }
  }
  // What is in it, as somebody else sees it.
  std::vector<std::byte> ContentOf(const Segment& segment) const {
    const StatusOr<UniqueFd> fd = segment.Export();
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.ok() ? Import(fd->get(), segment.size()) : std::vector<std::byte>();
  }
  bool Holds(const Segment& segment, std::byte value) const {
    const std::vector<std::byte> content = ContentOf(segment);
    return Bytes(content.size()) == segment.size() && AllEqual(content, value);
  }
  Bytes bytes_alive() const {
    const BackendCounters counters = device_->counters();
    return counters.bytes_created - counters.bytes_destroyed;
  }

  const std::unique_ptr<Device> device_;
  const Bytes granule_;
};

using DeviceContractDeathTest = DeviceContractTest;

}  // namespace tenure
