// The memory of slots.

#include <optional>
#include <thread>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/pool_guard.h"

namespace tenure::client {

absl::Status LocalPool::AcquireSlot(uint64_t bytes, uint64_t alignment, const CallOptions& options,
                                    PoolBlock& block) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckRequest(bytes, alignment, BufferKind::kActivation));
  if (forked()) return ForkedError();
  Guard guard(*this);
  std::optional<Deadline> deadline;
  absl::Status refusal;
  while (true) {
    if (!valid_.load(std::memory_order_relaxed)) return LostError();
    if (closed_) return PoolGone();
    DrainAll();
    if (const std::optional<PoolBlock> taken = shelves_.Take(bytes, alignment)) {
      block = *taken;
      ++live_;
      return absl::OkStatus();
    }
    if (!deadline.has_value()) deadline.emplace(options.timeout.value_or(options_.timeout));
    if (options.cancel.stop_requested()) {
      return absl::CancelledError("stop was requested while waiting for the memory of a slot");
    }
    if (deadline->left() == Duration(0)) {
      return refusal.ok() ? absl::DeadlineExceededError("no memory for a slot became free")
                          : refusal;
    }
    if (refusal.ok() || TakeOutAll() != 0) {
      guard.unlock();
      const absl::StatusOr<SegmentSource::Granted> granted =
          source_->AcquireBuffer(bytes, alignment, *deadline, options.cancel);
      guard.lock();
      refusal = granted.ok() ? AddSlot(bytes, alignment, *granted, block) : granted.status();
      if (granted.ok()) return refusal;
    } else if (!pending_.MayDrain()) {
      return refusal;
    } else {
      guard.unlock();
      std::this_thread::sleep_for(kPoll);
      guard.lock();
    }
  }
}

absl::Status LocalPool::PoolGone() {
  return MakeError(absl::StatusCode::kFailedPrecondition, kReleased,
                   "the pool of this plan is gone");
}

absl::Status LocalPool::AddSlot(uint64_t bytes, uint64_t alignment,
                                const SegmentSource::Granted& granted, PoolBlock& block) {
  if (!valid_) return LostError();
  if (closed_) {
    Defer().buffers.push_back(granted.buffer_id);
    return PoolGone();
  }
  if (granted.offset % alignment != 0 || bytes > options_.range_bytes ||
      granted.offset > options_.range_bytes - bytes) {
    Defer().buffers.push_back(granted.buffer_id);
    return ProtocolError("a buffer that does not lie in its pool, or is not aligned there");
  }
  block = shelves_.Add(bytes, alignment, granted.offset, granted.buffer_id);
  ++live_;
  return absl::OkStatus();
}

absl::Status LocalPool::ReleaseRead(const PoolBlock& block, std::span<const Fence> readers,
                                    std::span<const Fence> fences) {
  TENURE_CLIENT_RETURN_IF_ERROR(CheckFences(fences));
  std::vector<Fence> all;
  if (!readers.empty()) {
    all.assign(readers.begin(), readers.end());
    all.insert(all.end(), fences.begin(), fences.end());
    fences = all;
  }
  Guard guard(*this);
  if (recorder_.on()) DrainAll();
  Retire(block, fences);
  if (recorder_.on() && !block.of_slot) recorder_.Released();
  CountDown();
  return absl::OkStatus();
}

absl::Status LocalPool::CheckUsable() const {
  if (forked()) return ForkedError();
  if (valid()) return absl::OkStatus();
  const std::lock_guard lock(lock_);
  return LostError();
}

}  // namespace tenure::client
