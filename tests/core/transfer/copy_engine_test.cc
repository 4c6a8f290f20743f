#include "core/transfer/copy_engine.h"

#include <algorithm>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <thread>
#include <unistd.h>

#include "core/device/host_device.h"
#include "tests/core/transfer/memory_segments.h"
#include "tests/core/transfer/scripted_file.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_dir.h"

namespace tenure {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(5);

Range Target(uint64_t begin, uint64_t end) { return Range(Bytes(begin), Bytes(end)); }

// The offsets and sizes of the reads begun so far, as "offset+size".
std::vector<std::string> Described(const ScriptedFile& file) {
  std::vector<std::string> text;
  for (const ScriptedFile::Read& read : file.reads()) {
    text.push_back(std::to_string(read.offset.count()) + "+" + std::to_string(read.into.size()));
  }
  return text;
}

class CopyEngineTest : public testing::Test {
 protected:
  StatusOr<CopyReport> Read(int threads, Bytes piece, const std::vector<FileSpan>& spans,
                            const std::vector<Segment>& segments) {
    return CopyEngine(clock_, threads, piece).Read(spans, segments, device_, progress_);
  }

  ManualClock clock_;
  MemoryDevice device_;
  CopyProgress progress_;
};

TEST_F(CopyEngineTest, ASpanIsReadInPiecesNoLargerThanAskedFor) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(100)});
  ASSERT_TRUE(Read(1, Bytes(40), {{&file, Bytes(1000), Target(0, 100)}}, segments).ok());
  EXPECT_THAT(Described(file), testing::ElementsAre("1000+40", "1040+40", "1080+20"));
}

TEST_F(CopyEngineTest, ASpanOverSeveralSegmentsIsSplitAtTheirBoundaries) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(10), Bytes(3), Bytes(20)});
  ASSERT_TRUE(Read(1, Bytes(100), {{&file, Bytes(0), Target(8, 25)}}, segments).ok());
  EXPECT_THAT(Described(file), testing::ElementsAre("0+2", "2+3", "5+12"));
  EXPECT_EQ(segments[1].host_view()[0], file.ByteAt(Bytes(2)));
  EXPECT_EQ(segments[2].host_view()[11], file.ByteAt(Bytes(16)));
  EXPECT_EQ(segments[2].host_view()[12], kUntouched);
}

TEST_F(CopyEngineTest, SmallSpansThatFollowOneAnotherInFileAndRegionAreOneRead) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  const std::vector<FileSpan> spans = {{&file, Bytes(0), Target(0, 8)},
                                       {&file, Bytes(8), Target(8, 16)},
                                       {&file, Bytes(16), Target(20, 24)},
                                       {&file, Bytes(99), Target(24, 32)}};
  ASSERT_TRUE(Read(1, Bytes(64), spans, segments).ok());
  EXPECT_THAT(Described(file), testing::ElementsAre("0+16", "16+4", "99+8"));
}

TEST_F(CopyEngineTest, ASpanWithoutBytesIsNotRead) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(16)});
  const std::vector<FileSpan> spans = {{&file, Bytes(5), Target(0, 0)},
                                       {&file, Bytes(7), Target(4, 8)},
                                       {nullptr, Bytes(0), Target(16, 16)}};
  const StatusOr<CopyReport> report = Read(2, Bytes(8), spans, segments);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->copied, Bytes(4));
  EXPECT_THAT(Described(file), testing::ElementsAre("7+4"));
}

TEST_F(CopyEngineTest, NothingToCopyIsDoneAtOnce) {
  const StatusOr<CopyReport> report = Read(2, MiB(4), {}, {});
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->copied, Bytes(0));
  EXPECT_EQ(report->read, Duration(0));
}

TEST_F(CopyEngineTest, OneThreadMeansTheCallingThread) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  ASSERT_TRUE(Read(1, Bytes(8), {{&file, Bytes(0), Target(0, 64)}}, segments).ok());
  for (const ScriptedFile::Read& read : file.reads()) {
    EXPECT_EQ(read.thread, std::this_thread::get_id());
  }
}

TEST_F(CopyEngineTest, AsManyReadsRunAtOnceAsThereAreThreads) {
  ScriptedFile file(1);
  Turnstile gate;
  // Nobody goes on before three reads wait at the same time.
  file.on_read = [&](size_t number) {
    if (number == 2) gate.Open();
    gate.Pass();
    return absl::OkStatus();
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  ASSERT_TRUE(Read(3, Bytes(4), {{&file, Bytes(0), Target(0, 64)}}, segments).ok());
  std::set<std::thread::id> first_three;
  for (size_t i = 0; i < 3; ++i) first_three.insert(file.reads()[i].thread);
  EXPECT_EQ(first_three.size(), 3U);
}

TEST_F(CopyEngineTest, ConcurrentCopiesDoNotWaitForOneAnother) {
  ScriptedFile held(1);
  const ScriptedFile free(2);
  Turnstile gate;
  held.on_read = [&](size_t) {
    gate.Pass();
    return absl::OkStatus();
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(16)});
  const std::vector<Segment> others = MemorySegments({Bytes(16)});
  const CopyEngine engine(clock_, 2, Bytes(4));
  const std::vector<FileSpan> held_spans = {{&held, Bytes(0), Target(0, 16)}};
  const std::vector<FileSpan> free_spans = {{&free, Bytes(0), Target(0, 16)}};
  CopyProgress held_progress;
  auto waiting = std::async(std::launch::async, [&] {
    return engine.Read(held_spans, segments, device_, held_progress);
  });
  gate.AwaitArrivals(2);
  EXPECT_TRUE(engine.Read(free_spans, others, device_, progress_).ok());
  gate.Open();
  EXPECT_TRUE(waiting.get().ok());
}

TEST_F(CopyEngineTest, AnErrorOfAReadPassesThroughUnchanged) {
  ScriptedFile file(1);
  const Status failure = Error(Reason::kFileUnreadable, "cannot read: /m/x", {{"path", "/m/x"}});
  file.on_read = [&](size_t number) { return number == 2 ? failure : absl::OkStatus(); };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  EXPECT_EQ(Read(1, Bytes(8), {{&file, Bytes(0), Target(0, 64)}}, segments).status(), failure);
  EXPECT_EQ(file.reads().size(), 3U) << "reads went on after the error";
  EXPECT_EQ(progress_.bytes_done, 16U);
}

TEST_F(CopyEngineTest, TheFirstErrorWinsAndEndsTheOtherReaders) {
  ScriptedFile file(1);
  Turnstile gate;
  Status first = Error(Reason::kFileUnreadable, "first");
  Status second = Error(Reason::kFileChanged, "second");
  // The first reader fails later than the second.
  file.on_read = [&](size_t number) {
    if (number != 0) return first;
    gate.Pass();
    return second;
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  const std::vector<FileSpan> spans = {{&file, Bytes(0), Target(0, 64)}};
  auto running =
      std::async(std::launch::async, [&] { return Read(2, Bytes(4), spans, segments).status(); });
  gate.AwaitArrivals(1);
  while (file.reads().size() < 2) std::this_thread::yield();
  // The copy has failed, and still does not return while a read may write into the Segments.
  EXPECT_EQ(running.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  gate.Open();
  EXPECT_EQ(running.get(), first);
  EXPECT_EQ(file.reads().size(), 2U);
}

TEST_F(CopyEngineTest, ACancelledCopyEndsAfterTheReadsThatAreRunning) {
  ScriptedFile file(1);
  Turnstile gate;
  file.on_read = [&](size_t) {
    gate.Pass();
    return absl::OkStatus();
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  const std::vector<FileSpan> spans = {{&file, Bytes(0), Target(0, 64)}};
  auto running =
      std::async(std::launch::async, [&] { return Read(2, Bytes(4), spans, segments).status(); });
  gate.AwaitArrivals(2);
  progress_.cancelled = true;
  gate.Open();
  EXPECT_TRUE(HasReason(running.get(), Reason::kCancelled));
  EXPECT_EQ(file.reads().size(), 2U);
  EXPECT_EQ(progress_.bytes_done, 8U);
}

TEST_F(CopyEngineTest, ACopyCancelledBeforeItBeginsReadsNothing) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  progress_.cancelled = true;
  const Status status = Read(2, Bytes(4), {{&file, Bytes(0), Target(0, 64)}}, segments).status();
  EXPECT_TRUE(HasReason(status, Reason::kCancelled)) << status;
  EXPECT_TRUE(file.reads().empty());
}

TEST_F(CopyEngineTest, AnErrorBeforeTheCancellationIsWhatIsTold) {
  ScriptedFile file(1);
  Status failure = Error(Reason::kFileUnreadable, "disk");
  file.on_read = [&](size_t) {
    progress_.cancelled = true;
    return failure;
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  EXPECT_EQ(Read(1, Bytes(4), {{&file, Bytes(0), Target(0, 64)}}, segments).status(), failure);
}

TEST_F(CopyEngineTest, ProgressGrowsWithEveryPiece) {
  ScriptedFile file(1);
  std::vector<uint64_t> seen;
  file.on_read = [&](size_t) {
    seen.push_back(progress_.bytes_done);
    return absl::OkStatus();
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  ASSERT_TRUE(Read(1, Bytes(24), {{&file, Bytes(0), Target(0, 64)}}, segments).ok());
  EXPECT_THAT(seen, testing::ElementsAre(0, 24, 48));
  EXPECT_EQ(progress_.bytes_done, 64U);
}

TEST_F(CopyEngineTest, TheReportTellsTheTimeFromTheFirstReadToTheEndOfTheLast) {
  ScriptedFile file(1);
  file.on_read = [&](size_t) {
    clock_.Advance(kStep);
    return absl::OkStatus();
  };
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  const std::vector<FileSpan> spans = {{&file, Bytes(0), Target(0, 64)}};
  EXPECT_EQ(Read(1, Bytes(16), spans, segments)->read, kStep * 4);
  EXPECT_EQ(Read(4, Bytes(16), spans, segments)->read, kStep * 4);
}

// field case 32
TEST_F(CopyEngineTest, AFileThatEndsEarlyIsAnError) {
  const ScriptedFile file(1, Bytes(50));
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  const Status status = Read(2, Bytes(8), {{&file, Bytes(0), Target(0, 64)}}, segments).status();
  EXPECT_TRUE(HasReason(status, Reason::kFileChanged)) << status;
}

// field case 32
TEST_F(CopyEngineTest, AFileTruncatedAfterItWasOpenedIsAnErrorAndNotASignal) {
  const TempDir dir;
  const std::string path = dir.WriteFile("w", std::string(MiB(3).count(), 'w'));
  const auto file = MakePosixFileLayer()->Open(path, dir.path());
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(MiB(1).count())), 0);
  const std::vector<Segment> segments = MemorySegments({MiB(3)});
  const std::vector<FileSpan> spans = {{file->get(), Bytes(0), Range(Bytes(0), MiB(3))}};
  const Status status = Read(2, KiB(256), spans, segments).status();
  EXPECT_TRUE(HasReason(status, Reason::kFileChanged)) << status;
}

TEST_F(CopyEngineTest, AFileOnDiskArrivesInHostSegments) {
  const TempDir dir;
  std::string content(MiB(5).count(), '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 7);
  const auto file = MakePosixFileLayer()->Open(dir.WriteFile("w", content), dir.path());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto device = MakeHostDevice({.total = GiB(1)});
  ASSERT_TRUE(device.ok());
  std::vector<Segment> segments;
  for (const Bytes size : {MiB(2), MiB(4)}) {
    StatusOr<Segment> segment = (*device)->CreateSegment(SegmentUse::kWeights, size);
    ASSERT_TRUE(segment.ok()) << segment.status();
    segments.push_back(*std::move(segment));
  }
  const std::vector<FileSpan> spans = {{file->get(), Bytes(0), Range(Bytes(0), MiB(5))}};
  const StatusOr<CopyReport> report = Read(2, MiB(1), spans, segments);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->copied, MiB(5));
  const std::vector<std::byte> region = RegionBytes(segments);
  EXPECT_TRUE(std::equal(content.begin(), content.end(), region.begin(),
                         [](char a, std::byte b) { return static_cast<std::byte>(a) == b; }));
}

using CopyEngineDeathTest = CopyEngineTest;

TEST_F(CopyEngineDeathTest, ATargetOutsideTheRegionIsABugOfTheCaller) {
  const ScriptedFile file(1);
  const std::vector<Segment> segments = MemorySegments({Bytes(64)});
  EXPECT_DEATH((void)Read(1, Bytes(4), {{&file, Bytes(0), Target(60, 65)}}, segments), "");
}

}  // namespace
}  // namespace tenure
