#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <random>

#include "core/transfer/copy_engine.h"
#include "tests/core/transfer/memory_segments.h"
#include "tests/core/transfer/scripted_file.h"
#include "tests/support/manual_clock.h"

namespace tenure {
namespace {

class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}
  uint64_t Between(uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(engine_);
  }
  bool OneIn(uint64_t n) { return Between(1, n) == 1; }
  template <typename T>
  void Shuffle(std::vector<T>& items) {
    std::shuffle(items.begin(), items.end(), engine_);
  }

 private:
  std::mt19937_64 engine_;
};

// A Region of Segments of odd sizes, and spans of several files that fill it but for some gaps.
struct Scene {
  explicit Scene(Dice& dice) {
    std::vector<Bytes> sizes;
    for (uint64_t n = dice.Between(1, 8); n > 0; --n) sizes.emplace_back(dice.Between(1, 300));
    segments = MemorySegments(sizes);
    for (uint64_t seed = 1; seed <= 3; ++seed) {
      files.push_back(std::make_unique<ScriptedFile>(seed));
    }
    expected = RegionBytes(segments);
    Bytes offset;
    for (uint64_t at = 0; at < expected.size();) {
      const uint64_t size =
          std::min(dice.Between(0, dice.OneIn(8) ? 500 : 40), uint64_t{expected.size()} - at);
      if (dice.OneIn(6)) {
        at += size;
        continue;
      }
      const ScriptedFile& file = *files[dice.Between(0, files.size() - 1)];
      // Often goes on where the last span ended, so that reads can be joined.
      if (dice.OneIn(3)) offset = Bytes(dice.Between(0, 100'000));
      spans.push_back({&file, offset, Range(Bytes(at), Bytes(at + size))});
      for (uint64_t i = 0; i < size; ++i) expected[at + i] = file.ByteAt(offset + Bytes(i));
      offset += Bytes(size);
      at += size;
      total += Bytes(size);
      if (size == 0 && dice.OneIn(2)) ++at;
    }
    if (dice.OneIn(2)) dice.Shuffle(spans);
  }

  bool IsInOneSegment(std::span<const std::byte> bytes) const {
    return std::ranges::any_of(segments, [&](const Segment& segment) {
      const std::span<std::byte> view = segment.host_view();
      return bytes.data() >= view.data() &&
             bytes.data() + bytes.size() <= view.data() + view.size();
    });
  }

  std::vector<Segment> segments;
  std::vector<std::unique_ptr<ScriptedFile>> files;
  std::vector<FileSpan> spans;
  std::vector<std::byte> expected;
  Bytes total;
};

TEST(CopyEnginePropertyTest, TheRegionHoldsExactlyWhatTheSpansSay) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Scene scene(dice);
    const Bytes piece(dice.Between(1, 100));
    const ManualClock clock;
    CopyProgress progress;
    const CopyEngine engine(clock, static_cast<int>(dice.Between(1, 4)), piece);

    MemoryDevice device;
    const StatusOr<CopyReport> report = engine.Read(scene.spans, scene.segments, device, progress);

    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_EQ(RegionBytes(scene.segments), scene.expected);
    ASSERT_EQ(report->copied, scene.total);
    ASSERT_EQ(Bytes(progress.bytes_done), scene.total);
    for (const auto& file : scene.files) {
      for (const ScriptedFile::Read& read : file->reads()) {
        ASSERT_GT(read.into.size(), 0U);
        ASSERT_LE(Bytes(read.into.size()), piece);
        ASSERT_TRUE(scene.IsInOneSegment(read.into));
      }
    }
  }
}

TEST(CopyEnginePropertyTest, AnyReadThatFailsFailsTheCopy) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Dice dice(seed);
    const Scene scene(dice);
    const uint64_t bad = dice.Between(0, 20);
    const Status failure = Error(Reason::kFileUnreadable, "bad sector");
    scene.files[0]->on_read = [&](size_t n) { return n == bad ? failure : absl::OkStatus(); };
    const ManualClock clock;
    CopyProgress progress;
    const CopyEngine engine(clock, static_cast<int>(dice.Between(1, 4)), Bytes(32));

    MemoryDevice device;
    const StatusOr<CopyReport> report = engine.Read(scene.spans, scene.segments, device, progress);

    if (scene.files[0]->reads().size() > bad) {
      ASSERT_EQ(report.status(), failure);
      ASSERT_LT(Bytes(progress.bytes_done), scene.total);
    } else {
      ASSERT_TRUE(report.ok()) << report.status();
    }
  }
}

}  // namespace
}  // namespace tenure
