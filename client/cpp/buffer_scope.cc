#include "tenure/buffer_scope.h"

#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/scope_state.h"

namespace tenure::client {
namespace {

absl::Status ScopeReleased() {
  return MakeError(absl::StatusCode::kFailedPrecondition, kScopeReleased,
                   "this scope was released or moved from");
}

// Its timeline is gone at once.
Fence NeverReached() { return Fence::At(Timeline(), UINT64_MAX); }

}  // namespace

BufferScope::BufferScope(std::unique_ptr<ScopeState> state)
    : state_(std::move(state)), base_(state_->pool->base()) {}

BufferScope::BufferScope(BufferScope&& other) noexcept
    : state_(std::move(other.state_)),
      at_(std::exchange(other.at_, 0)),
      end_(std::exchange(other.end_, 0)),
      base_(other.base_),
      refused_(other.refused_) {}

BufferScope& BufferScope::operator=(BufferScope&& other) noexcept {
  if (this != &other) {
    Drop();
    state_ = std::move(other.state_);
    at_ = std::exchange(other.at_, 0);
    end_ = std::exchange(other.end_, 0);
    base_ = other.base_;
    refused_ = other.refused_;
  }
  return *this;
}

BufferScope::~BufferScope() { Drop(); }

void BufferScope::Drop() {
  if (state_ == nullptr) return;
  if (!refused_) return Release().IgnoreError();
  const std::shared_ptr<LocalPool> pool = state_->pool;
  pool->ReleaseScopeNever(std::move(state_));
  at_ = end_ = 0;
}

absl::StatusOr<ScopeBuffer> BufferScope::AcquireSlowly(uint64_t bytes, uint64_t alignment,
                                                       const CallOptions& options) {
  if (state_ == nullptr) return ScopeReleased();
  if (alignment != 0 && alignment < LocalPool::kGranule && (alignment & (alignment - 1)) == 0) {
    return Acquire(bytes, LocalPool::kGranule, options);
  }
  PoolBlock block;
  TENURE_CLIENT_RETURN_IF_ERROR(
      state_->pool->AcquireFor(*state_, bytes, alignment, options, block));
  state_->blocks.push_back(block);
  at_ = block.offset + ((bytes + LocalPool::kGranule - 1) & ~(LocalPool::kGranule - 1));
  end_ = state_->recorded ? at_ : block.offset + block.bytes;
  return ScopeBuffer{.data = base_ + block.offset, .size_bytes = bytes, .offset = block.offset};
}

bool BufferScope::Has(const ScopeBuffer& buffer) const {
  if (buffer.size_bytes == 0 || buffer.data != base_ + buffer.offset) return false;
  for (size_t i = state_->blocks.size(); i-- > 0;) {
    const PoolBlock& block = state_->blocks[i];
    const bool in_use = i + 1 == state_->blocks.size();
    const uint64_t end = in_use ? at_ : block.offset + block.bytes;
    if (block.offset <= buffer.offset && buffer.offset < end) {
      return buffer.size_bytes <= end - buffer.offset;
    }
  }
  return false;
}

absl::Status BufferScope::KeepUntil(const ScopeBuffer& buffer, const Fence& fence) {
  if (state_ == nullptr) return ScopeReleased();
  if (!Has(buffer)) {
    return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                     "this buffer is not of this scope");
  }
  absl::Status status = state_->pool->CheckFences(std::span<const Fence>(&fence, 1));
  ScopeState::Reader reader{.offset = buffer.offset,
                            .end = buffer.offset + buffer.size_bytes,
                            .fence = status.ok() ? fence : NeverReached(),
                            .timeline = nullptr};
  // The timeline may be gone when the scope is released.
  TimelineState* const timeline = TimelineState::Of(reader.fence.timeline());
  if (timeline != nullptr && timeline->TryRefer(reader.fence.generation())) {
    reader.timeline = timeline;
  }
  state_->readers.push_back(reader);
  return status;
}

absl::Status BufferScope::Release() { return Release(std::span<const Fence>()); }

absl::Status BufferScope::Release(const Fence& fence) {
  return Release(std::span<const Fence>(&fence, 1));
}

absl::Status BufferScope::Release(std::initializer_list<Fence> fences) {
  return Release(std::span<const Fence>(fences.begin(), fences.size()));
}

absl::Status BufferScope::Release(std::span<const Fence> fences) {
  if (state_ == nullptr) return ScopeReleased();
  LocalPool& pool = *state_->pool;
  absl::Status status = pool.ReleaseScope(state_, at_, fences);
  if (status.ok()) {
    at_ = end_ = 0;
  } else {
    refused_ = true;
  }
  return status;
}

}  // namespace tenure::client
