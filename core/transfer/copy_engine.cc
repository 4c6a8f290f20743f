#include "core/transfer/copy_engine.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <system_error>
#include <thread>

#include "core/base/check.h"
#include "core/base/mutex.h"

namespace tenure {
namespace {

// One read: from one file into one Segment, at `target` from its begin.
struct Piece {
  const ReadableFile* file = nullptr;
  Bytes offset;
  const Segment* segment = nullptr;
  Range target;
};

// A reader's share of the work at a time: pieces that together are no larger than the largest read,
// so that a lock is taken once for many small tensors and the readers still end together.
struct Batch {
  static constexpr size_t kMost = 64;
  std::array<Piece, kMost> pieces;
  size_t count = 0;

  std::span<const Piece> view() const { return {pieces.data(), count}; }
};

// Cuts the spans into pieces as they are asked for. Thread-safe.
class PieceQueue {
 public:
  PieceQueue(std::span<const FileSpan> spans, std::span<const Segment> segments, Bytes largest)
      : spans_(spans), segments_(segments), largest_(largest) {
    Bytes base;
    for (const Segment& segment : segments) {
      base += segment.size();
      ends_.push_back(base);
    }
    for (const FileSpan& span : spans) {
      TENURE_CHECK(span.target.end() <= base && (span.file != nullptr || span.target.empty()));
      total_ += span.target.size();
    }
  }

  // Bytes in all spans.
  Bytes total() const { return total_; }

  // Readers that can be kept busy, `threads` at most.
  int Readers(int threads) const {
    const uint64_t batches = std::max(total_ / largest_, spans_.size() / Batch::kMost) + 1;
    return static_cast<int>(std::min(batches, static_cast<uint64_t>(threads)));
  }

  // Replaces what `batch` holds by what comes next. False if nothing does.
  bool Take(Batch& batch) ABSL_LOCKS_EXCLUDED(mutex_) {
    batch.count = 0;
    Bytes room = largest_;
    const MutexLock lock(mutex_);
    while (next_ < spans_.size()) {
      const FileSpan& span = spans_[next_];
      const Bytes left = span.target.size() - done_;
      if (left.zero()) {
        ++next_;
        done_ = Bytes(0);
        continue;
      }
      const Piece piece = PieceAt(span, std::min(left, largest_));
      const Bytes size = piece.target.size();
      if (size > room) break;
      if (!Extend(batch, piece)) {
        if (batch.count == Batch::kMost) break;
        batch.pieces[batch.count++] = piece;
      }
      room -= size;
      done_ += size;
    }
    return batch.count > 0;
  }

 private:
  // The next bytes of `span`, `most` or as many as its Segment still takes.
  Piece PieceAt(const FileSpan& span, Bytes most) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Bytes target = span.target.begin() + done_;
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), target);
    const Segment& segment = segments_[static_cast<size_t>(end - ends_.begin())];
    const Bytes begin = segment.size() - (*end - target);
    return {.file = span.file,
            .offset = span.offset + done_,
            .segment = &segment,
            .target = Range(begin, begin + std::min(most, *end - target))};
  }

  // Makes `piece` part of the batch's last read if it goes on where that one ends, in the file and
  // in memory: thousands of small tensors are then a few reads.
  static bool Extend(Batch& batch, const Piece& piece) {
    if (batch.count == 0) return false;
    Piece& last = batch.pieces[batch.count - 1];
    const bool follows = last.file == piece.file && last.segment == piece.segment &&
                         last.offset + last.target.size() == piece.offset &&
                         last.target.end() == piece.target.begin();
    if (follows) last.target = Range(last.target.begin(), piece.target.end());
    return follows;
  }

  const std::span<const FileSpan> spans_;
  const std::span<const Segment> segments_;
  const Bytes largest_;
  std::vector<Bytes> ends_;  // where in the Region each Segment ends
  Bytes total_;

  Mutex mutex_;
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;  // the span that is being cut
  Bytes done_ ABSL_GUARDED_BY(mutex_);       // of that span
};

// One call of Read. Thread-safe.
class Copy {
 public:
  Copy(const Clock& clock, Device& device, PieceQueue& queue, CopyProgress& progress)
      : clock_(clock), device_(device), queue_(queue), progress_(progress) {}

  // Reads pieces until there are none, or one failed, or the copy is cancelled. Each reader runs
  // this.
  void Run() ABSL_LOCKS_EXCLUDED(mutex_) {
    Batch batch;
    if (ended_ || !queue_.Take(batch)) return;
    StatusOr<std::unique_ptr<SegmentWriter>> writer = device_.OpenWriter();
    if (!writer.ok()) {
      End(writer.status());
      return;
    }
    const Instant first = clock_.Now();
    bool more = true;
    while (more) {
      for (const Piece& piece : batch.view()) {
        more = ReadOne(piece, **writer);
        if (!more) break;
      }
      more = more && queue_.Take(batch);
    }
    const Instant last = clock_.Now();
    if (const Status finished = (*writer)->Finish(); !finished.ok()) End(finished);
    const Instant arrived = clock_.Now();
    const MutexLock lock(mutex_);
    first_ = std::min(first_, first);
    last_ = std::max(last_, last);
    arrived_ = std::max(arrived_, arrived);
  }

  // REQUIRES: no reader runs any more.
  StatusOr<CopyReport> Report() ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    TENURE_RETURN_IF_ERROR(error_);
    CopyReport report{.copied = queue_.total()};
    if (first_ == kNever) return report;
    report.read = last_ - first_;
    report.copy = arrived_ - last_;
    return report;
  }

 private:
  // False if there is no point in going on.
  bool ReadOne(const Piece& piece, SegmentWriter& writer) ABSL_LOCKS_EXCLUDED(mutex_) {
    Bytes done;
    while (done < piece.target.size()) {
      if (ended_) return false;
      if (progress_.cancelled) return End(Error(Reason::kCancelled, "the copy was cancelled"));
      const StatusOr<std::span<std::byte>> into =
          writer.Prepare(*piece.segment, Range(piece.target.begin() + done, piece.target.end()));
      if (!into.ok()) return End(into.status());
      const Status read = piece.file->ReadAt(piece.offset + done, *into);
      if (!read.ok()) return End(read);
      if (const Status sent = writer.Commit(); !sent.ok()) return End(sent);
      done += Bytes(into->size());
      progress_.bytes_done += into->size();
    }
    return true;
  }

  // Keeps the first error of all readers, and is false.
  bool End(const Status& error) ABSL_LOCKS_EXCLUDED(mutex_) {
    const MutexLock lock(mutex_);
    if (error_.ok()) error_ = error;
    ended_ = true;
    return false;
  }

  const Clock& clock_;
  Device& device_;
  PieceQueue& queue_;
  CopyProgress& progress_;

  std::atomic<bool> ended_ = false;

  Mutex mutex_;
  Status error_ ABSL_GUARDED_BY(mutex_);
  Instant first_ ABSL_GUARDED_BY(mutex_) = kNever;
  Instant last_ ABSL_GUARDED_BY(mutex_);
  Instant arrived_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

CopyEngine::CopyEngine(const Clock& clock, int threads, Bytes piece)
    : clock_(clock), threads_(threads), piece_(piece) {
  TENURE_CHECK(threads >= 1 && !piece.zero());
}

StatusOr<CopyReport> CopyEngine::Read(std::span<const FileSpan> spans,
                                      std::span<const Segment> segments, Device& device,
                                      CopyProgress& progress) const {
  PieceQueue queue(spans, segments, piece_);
  Copy copy(clock_, device, queue, progress);
  std::vector<std::thread> others;
  for (int i = 1; i < queue.Readers(threads_); ++i) {
    try {
      others.emplace_back([&copy] { copy.Run(); });
    } catch (const std::system_error&) {
      break;  // the process may have no more threads: fewer readers read everything too
    }
  }
  copy.Run();
  for (std::thread& other : others) other.join();
  return copy.Report();
}

}  // namespace tenure
