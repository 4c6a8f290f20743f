#include "client/cpp/local_pool.h"

#include <bit>
#include <optional>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/pool_guard.h"
#include "core/base/check.h"

namespace tenure::client {

LocalPool::LocalPool(const Options& options, std::shared_ptr<SegmentSource> source,
                     std::shared_ptr<CudaEvents> events)
    : options_(options),
      source_(std::move(source)),
      pending_(std::move(events)),
      parts_{Part(options.idle_ttl), Part(options.idle_ttl), Part(options.idle_ttl)},
      shelves_(options.idle_ttl) {}

LocalPool::~LocalPool() = default;

absl::Status LocalPool::CheckRequest(uint64_t bytes, uint64_t alignment, BufferKind kind) const {
  std::string what;
  if (bytes == 0 || bytes > options_.range_bytes) {
    what = "a buffer has 1 to " + std::to_string(options_.range_bytes) + " bytes";
  } else if (!std::has_single_bit(alignment) || alignment > kMostAlignment) {
    what = "an alignment is a power of two and at most " + std::to_string(kMostAlignment);
  } else if (static_cast<size_t>(kind) >= kKinds) {
    what = "there is no such kind of buffer";
  } else {
    return absl::OkStatus();
  }
  return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest, what,
                   {{"bytes", std::to_string(bytes)}, {"alignment", std::to_string(alignment)}});
}

absl::Status LocalPool::Acquire(uint64_t bytes, uint64_t alignment, BufferKind kind,
                                const CallOptions& options, PoolBlock& block) {
  if (bytes == 0 || bytes > options_.range_bytes || alignment == 0 ||
      (alignment & (alignment - 1)) != 0 || alignment > kMostAlignment ||
      static_cast<size_t>(kind) >= kKinds) [[unlikely]] {
    return CheckRequest(bytes, alignment, kind);
  }
  const Request request{.bytes = bytes, .alignment = alignment, .kind = kind};
  if (forked()) [[unlikely]]
    return ForkedError();
  Guard guard(*this);
  if (!valid_.load(std::memory_order_relaxed)) [[unlikely]]
    return LostError();
  DrainSome();
  if (PartOf(kind).line.empty() && Take(request, block)) return absl::OkStatus();
  return AcquireSlowly(guard, request, options, block);
}

bool LocalPool::Take(const Request& request, PoolBlock& block) {
  Part& part = PartOf(request.kind);
  const std::optional<OffsetAllocator::Block> taken =
      part.allocator.Allocate(tenure::Bytes(request.bytes), tenure::Bytes(request.alignment));
  if (!taken.has_value()) return false;
  block.offset = taken->offset.count();
  block.bytes = taken->size.count();
  block.kind = request.kind;
  uint32_t note = 0;
  if (recorder_.on()) {
    note = recorder_.Acquired(request.bytes, request.alignment, request.kind);
  }
  block.name = uint64_t{note} << 32 | taken->node;
  part.used += block.bytes;
  part.peak.Note(part.used);
  ++live_;
  return true;
}

void LocalPool::Free(const PoolBlock& block) {
  if (block.of_slot) return shelves_.Free(block);
  Part& part = PartOf(block.kind);
  part.allocator.Free(block.block());
  part.used -= block.bytes;
  if (block.note() != 0) recorder_.Ended(block.note(), recorder_.next_step());
}

void LocalPool::DrainSome() {
  // What is recorded ends as early as can be seen.
  if (recorder_.on()) return DrainAll();
  if (pending_.DrainSome([this](const PoolBlock& block) { Free(block); })) Serve();
}

void LocalPool::DrainAll() {
  if (pending_.DrainAll([this](const PoolBlock& block) { Free(block); })) Serve();
}

void LocalPool::CountDown() {
  --live_;
  LetGo();
}

void LocalPool::LetGo() {
  if (self_ == nullptr || Needed()) return;
  TakeOutAll();
  Defer().self = std::move(self_);
}

absl::Status LocalPool::CheckFences(std::span<const Fence> fences) const {
  return forked() ? ForkedError() : pending_.Check(fences);
}

absl::Status LocalPool::Release(const PoolBlock& block, std::span<const Fence> fences) {
  if (forked()) [[unlikely]]
    return ForkedError();
  if (!fences.empty()) TENURE_CLIENT_RETURN_IF_ERROR(pending_.Check(fences));
  Guard guard(*this);
  if (recorder_.on()) DrainAll();
  Retire(block, fences);
  if (recorder_.on()) recorder_.Released();
  CountDown();
  return absl::OkStatus();
}

void LocalPool::Retire(const PoolBlock& block, std::span<const Fence> fences) {
  if (!pending_.Hold(block, fences)) {
    Free(block);
    if (waiting_ != 0) Serve();
  } else if (waiting_ != 0) {
    // Its timeline may have advanced before it was watched.
    DrainAll();
  }
}

void LocalPool::ReleaseNever(const PoolBlock& block) {
  if (forked()) return;
  Guard guard(*this);
  pending_.HoldForEver(block);
  CountDown();
}

void LocalPool::Close() {
  if (forked()) return;
  Guard guard(*this);
  closed_ = true;
  DrainAll();
  if (Needed()) self_ = shared_from_this();
  TakeOutAll();
}

bool LocalPool::done() const {
  const std::lock_guard lock(lock_);
  return closed_ && live_ == 0 && segments_.empty() && shelves_.held() == 0;
}

uint64_t LocalPool::held_bytes() const {
  if (forked()) return 0;
  const std::lock_guard lock(lock_);
  return segments_.size() * options_.segment_bytes + shelves_.held();
}

uint64_t LocalPool::used_bytes() const {
  if (forked()) return 0;
  const std::lock_guard lock(lock_);
  uint64_t used = shelves_.used();
  for (const Part& part : parts_) used += part.used;
  return used;
}

size_t LocalPool::waiting() const {
  const std::lock_guard lock(lock_);
  return waiting_;
}

absl::Status LocalPool::StartRecording() {
  if (forked()) return ForkedError();
  Guard guard(*this);
  if (recorder_.on()) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kRecording,
                     "what this pool does is being recorded already");
  }
  recorder_.Start();
  recording_ = true;
  return absl::OkStatus();
}

std::vector<RecordedBuffer> LocalPool::FinishRecording() {
  if (forked()) return {};
  Guard guard(*this);
  DrainAll();
  recording_ = false;
  return recorder_.Finish();
}

absl::Status LocalPool::LostError() const {
  return MakeError(absl::StatusCode::kFailedPrecondition, lost_,
                   "the pool was lost, and no buffer of it is valid any more: " + lost_);
}

void LocalPool::Invalidate(std::string_view reason) {
  Guard guard(*this);
  if (!lost_.empty()) return;
  lost_ = reason;
  valid_.store(false, std::memory_order_release);
  for (Part& part : parts_) {
    for (Waiter* const waiter : part.line) {
      waiter->nudged = true;
      waiter->changed.notify_all();
      if (waiter->growing) Defer().stops.push_back(waiter->stop_growing);
    }
  }
}

}  // namespace tenure::client
