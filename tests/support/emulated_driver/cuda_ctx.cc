#include "tests/support/emulated_driver/cuda_ctx.h"

#include <algorithm>

#include "tests/support/emulated_driver/cuda_stream.h"

namespace tenure::emulated {

CUresult PrimaryCtx::Retain() {
  if (const CUresult health = DeviceHealth(); health != CUDA_SUCCESS) return health;
  const MutexLock lock(mutex_);
  if (retained_ == 0) {
    AllocationRecord cost;
    cost.gpu = static_cast<uint32_t>(gpu_);
    cost.charge = machine_.context_cost.count();
    StateFolder::Refusal refusal = StateFolder::Refusal::kNone;
    std::optional<Share> share = folder_.Take(cost, config().memory, refusal);
    if (!share) return CUDA_ERROR_OUT_OF_MEMORY;
    cost_.emplace(std::move(*share));
  }
  ++retained_;
  return CUDA_SUCCESS;
}

CUresult PrimaryCtx::Release(bool& last) {
  const MutexLock lock(mutex_);
  last = retained_ == 1;
  if (retained_ == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--retained_ == 0) cost_.reset();
  return CUDA_SUCCESS;
}

bool PrimaryCtx::active() const {
  const MutexLock lock(mutex_);
  return retained_ > 0;
}

CUresult PrimaryCtx::DeviceHealth() const {
  return static_cast<CUresult>(folder_.control().lost[gpu_].load());
}

CUresult PrimaryCtx::Health() const {
  if (const CUresult health = DeviceHealth(); health != CUDA_SUCCESS) return health;
  if (!active()) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return error_;
}

void PrimaryCtx::Fail(CUresult error) {
  CUresult none = CUDA_SUCCESS;
  error_.compare_exchange_strong(none, error);
}

void PrimaryCtx::Add(const std::shared_ptr<Stream>& stream) {
  const MutexLock lock(mutex_);
  std::erase_if(streams_, [](const auto& known) { return known.expired(); });
  streams_.push_back(stream);
}

std::vector<std::shared_ptr<Stream>> PrimaryCtx::Streams(bool all) {
  std::vector<std::shared_ptr<Stream>> streams;
  const MutexLock lock(mutex_);
  for (const auto& known : streams_) {
    std::shared_ptr<Stream> stream = known.lock();
    if (stream != nullptr && (all || stream->blocking())) streams.push_back(std::move(stream));
  }
  return streams;
}

void PrimaryCtx::Synchronize(bool all) {
  for (const auto& stream : Streams(all)) stream->Drain();
}

bool PrimaryCtx::BlockingIdle() {
  const auto streams = Streams(false);
  return std::all_of(streams.begin(), streams.end(),
                     [](const auto& stream) { return stream->Idle(); });
}

std::vector<PrimaryCtx*>& CtxStack() {
  thread_local std::vector<PrimaryCtx*> stack;
  return stack;
}

}  // namespace tenure::emulated
