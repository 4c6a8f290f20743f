#include "tenure/buffer_pool.h"

#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/local_pool.h"
#include "client/cpp/plan_cache.h"

namespace tenure::client {
namespace {

constexpr uint64_t kGranuleMask = LocalPool::kGranule - 1;

PoolBlock BlockOf(const PoolBuffer& buffer, uint64_t name) {
  return {.offset = buffer.offset(),
          .bytes = (buffer.size_bytes() + kGranuleMask) & ~kGranuleMask,
          .name = name,
          .kind = buffer.kind()};
}

}  // namespace

PoolBuffer& PoolBuffer::operator=(PoolBuffer&& other) noexcept {
  if (this != &other) {
    if (pool_ != nullptr) Drop();
    pool_ = std::exchange(other.pool_, nullptr);
    data_ = other.data_;
    size_ = other.size_;
    offset_ = other.offset_;
    name_ = other.name_;
    kind_ = other.kind_;
    refused_ = other.refused_;
  }
  return *this;
}

bool PoolBuffer::valid() const { return pool_ != nullptr && pool_->valid(); }

absl::Status PoolBuffer::Release() { return Release(std::span<const Fence>()); }

absl::Status PoolBuffer::Release(const Fence& fence) {
  return Release(std::span<const Fence>(&fence, 1));
}

absl::Status PoolBuffer::Release(std::initializer_list<Fence> fences) {
  return Release(std::span<const Fence>(fences.begin(), fences.size()));
}

absl::Status PoolBuffer::Release(std::span<const Fence> fences) {
  if (pool_ == nullptr) {
    return MakeError(absl::StatusCode::kFailedPrecondition, kReleased,
                     "this buffer was released or moved from");
  }
  absl::Status status = pool_->Release(BlockOf(*this, name_), fences);
  if (status.ok()) {
    pool_ = nullptr;
  } else {
    refused_ = true;
  }
  return status;
}

void PoolBuffer::Drop() {
  LocalPool* const pool = std::exchange(pool_, nullptr);
  const PoolBlock block = BlockOf(*this, name_);
  if (refused_) {
    pool->ReleaseNever(block);
  } else {
    pool->Release(block, {}).IgnoreError();
  }
}

BufferPool::BufferPool(std::shared_ptr<LocalPool> pool, std::shared_ptr<PlanCache> plans)
    : pool_(std::move(pool)), plans_(std::move(plans)) {}
BufferPool::BufferPool(BufferPool&& other) noexcept = default;

BufferPool& BufferPool::operator=(BufferPool&& other) noexcept {
  if (this != &other) {
    if (pool_ != nullptr) pool_->Close();
    pool_ = std::move(other.pool_);
    plans_ = std::move(other.plans_);
  }
  return *this;
}

BufferPool::~BufferPool() {
  if (pool_ != nullptr) pool_->Close();
}

absl::StatusOr<PoolBuffer> BufferPool::Acquire(uint64_t bytes, const BufferOptions& buffer,
                                               const CallOptions& options) const {
  PoolBlock block;
  TENURE_CLIENT_RETURN_IF_ERROR(
      pool_->Acquire(bytes, buffer.alignment, buffer.kind, options, block));
  return absl::StatusOr<PoolBuffer>(absl::in_place, pool_.get(), pool_->base() + block.offset,
                                    bytes, block.offset, block.name, block.kind);
}

BufferScope BufferPool::OpenScope(BufferKind kind) const {
  return BufferScope(pool_->OpenScope(kind));
}

absl::StatusOr<BufferRecording> BufferPool::Record() const {
  TENURE_CLIENT_RETURN_IF_ERROR(pool_->StartRecording());
  return BufferRecording(pool_);
}

uint64_t BufferPool::Trim() const { return pool_->GiveBack(UINT64_MAX); }
uint64_t BufferPool::held_bytes() const { return pool_->held_bytes(); }
uint64_t BufferPool::used_bytes() const { return pool_->used_bytes(); }
bool BufferPool::valid() const { return pool_->valid(); }

BufferRecording::BufferRecording(std::shared_ptr<LocalPool> pool) : pool_(std::move(pool)) {}
BufferRecording::BufferRecording(BufferRecording&&) noexcept = default;

BufferRecording& BufferRecording::operator=(BufferRecording&& other) noexcept {
  if (this != &other) {
    Finish();
    pool_ = std::move(other.pool_);
  }
  return *this;
}

BufferRecording::~BufferRecording() { Finish(); }

std::vector<RecordedBuffer> BufferRecording::Finish() {
  if (pool_ == nullptr) return {};
  const std::shared_ptr<LocalPool> pool = std::move(pool_);
  return pool->FinishRecording();
}

}  // namespace tenure::client
