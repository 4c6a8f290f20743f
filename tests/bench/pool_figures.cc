#include "tests/bench/pool_figures.h"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/arena/offset_allocator.h"
#include "tests/bench/baselines.h"
#include "tests/bench/buffer_sizes.h"

namespace tenure::bench {
namespace {

constexpr size_t kSizes = 500;
constexpr size_t kPairs = 500'000;
constexpr uint64_t kLag = 16;
constexpr size_t kScopeBuffers = 100;
constexpr size_t kScopes = 5'000;

std::vector<uint64_t> MakeSizes(uint64_t divisor) {
  std::mt19937_64 random(kSizes);
  BufferSizes sizes;
  std::vector<uint64_t> all;
  for (size_t i = 0; i < kSizes; ++i) {
    all.push_back(std::max<uint64_t>(1, sizes.Next(random).count() / divisor));
  }
  return all;
}

PoolBuffer Take(const BufferPool& pool, uint64_t bytes) {
  absl::StatusOr<PoolBuffer> buffer = pool.Acquire(bytes);
  if (!buffer.ok()) throw std::runtime_error(std::string(buffer.status().message()));
  return *std::move(buffer);
}

// One after the other. The timeline advances with every eighth request.
class Requests {
 public:
  Requests(const BufferPool& pool, const std::vector<uint64_t>& sizes)
      : pool_(pool), sizes_(sizes) {}

  void ServeWithFence(size_t pairs) {
    for (size_t i = 0; i < pairs; ++i) {
      PoolBuffer buffer = Take(pool_, NextSize());
      buffer.Release(Fence::At(timeline_, ++request_)).IgnoreError();
      if (request_ % 8 == 0 && request_ > kLag) timeline_.Advance(request_ - kLag);
    }
  }
  void Serve(size_t pairs) {
    for (size_t i = 0; i < pairs; ++i) {
      PoolBuffer buffer = Take(pool_, NextSize());
      buffer.Release().IgnoreError();
    }
  }
  void ServeScopes(size_t scopes) {
    for (size_t i = 0; i < scopes; ++i) {
      BufferScope scope = pool_.OpenScope();
      for (size_t n = 0; n < kScopeBuffers; ++n) {
        const absl::StatusOr<ScopeBuffer> buffer = scope.Acquire(NextSize());
        if (!buffer.ok()) throw std::runtime_error(std::string(buffer.status().message()));
      }
      scope.Release(Fence::At(timeline_, ++request_)).IgnoreError();
      if (request_ > 2) timeline_.Advance(request_ - 2);
    }
  }

 private:
  uint64_t NextSize() {
    if (++next_ == sizes_.size()) next_ = 0;
    return sizes_[next_];
  }

  const BufferPool& pool_;
  const std::vector<uint64_t>& sizes_;
  size_t next_ = 0;
  Timeline timeline_;
  uint64_t request_ = 0;
};

// What the allocator alone takes of it: each block is freed when the fence of its buffer is
// reached.
class BareAllocator {
 public:
  explicit BareAllocator(const std::vector<uint64_t>& sizes) : sizes_(sizes) {
    allocator_.Add(Range(Bytes(0), Bytes(uint64_t{1} << 45)));
  }

  void Serve(size_t pairs) {
    for (const size_t end = next_ + pairs; next_ < end; ++next_) {
      std::optional<OffsetAllocator::Block>& block = blocks_[next_ % blocks_.size()];
      if (block.has_value()) allocator_.Free(*block);
      block = allocator_.Allocate(Bytes(sizes_[next_ % sizes_.size()]));
    }
  }

 private:
  const std::vector<uint64_t>& sizes_;
  OffsetAllocator allocator_;
  std::array<std::optional<OffsetAllocator::Block>, kLag> blocks_;
  size_t next_ = 0;
};

// From one thread to one other.
class Mailbox {
 public:
  bool Put(PoolBuffer& buffer) {
    const size_t at = put_.load(std::memory_order_relaxed);
    if (at - taken_.load(std::memory_order_acquire) == buffers_.size()) return false;
    buffers_[at % buffers_.size()].emplace(std::move(buffer));
    put_.store(at + 1, std::memory_order_release);
    return true;
  }
  std::optional<PoolBuffer> Get() {
    const size_t at = taken_.load(std::memory_order_relaxed);
    if (at == put_.load(std::memory_order_acquire)) return std::nullopt;
    std::optional<PoolBuffer> buffer = std::move(buffers_[at % buffers_.size()]);
    buffers_[at % buffers_.size()].reset();
    taken_.store(at + 1, std::memory_order_release);
    return buffer;
  }

 private:
  std::array<std::optional<PoolBuffer>, 64> buffers_;
  alignas(64) std::atomic<size_t> put_ = 0;
  alignas(64) std::atomic<size_t> taken_ = 0;
};

void ServeWithOther(const BufferPool& pool, const std::vector<uint64_t>& sizes, size_t pairs,
                    Mailbox& to_other, Mailbox& to_us) {
  Timeline timeline;
  for (size_t i = 1; i <= pairs; ++i) {
    PoolBuffer buffer = Take(pool, sizes[i % sizes.size()]);
    const Fence fence = Fence::At(timeline, i);
    if (i % 2 != 0 || !to_other.Put(buffer)) buffer.Release(fence).IgnoreError();
    if (std::optional<PoolBuffer> theirs = to_us.Get()) theirs->Release(fence).IgnoreError();
    if (i % 8 == 0 && i > kLag) timeline.Advance(i - kLag);
  }
  timeline.Advance(pairs);
}

double PerItem(std::chrono::nanoseconds took, size_t items) {
  return std::chrono::duration<double, std::nano>(took).count() / static_cast<double>(items);
}

template <typename Work>
Samples Measure(int rounds, size_t items, const Work& work) {
  Samples samples;
  work();
  for (int i = 0; i < rounds; ++i) samples.Add(PerItem(TimeOf(work), items));
  return samples;
}

}  // namespace

void AddPoolFigures(int rounds, const std::function<MeasuredPool()>& open, Report& report) {
  MeasuredPool measured = open();
  const BufferPool& pool = measured.pool;
  const std::vector<uint64_t> sizes = MakeSizes(measured.divisor);
  Requests requests(pool, sizes);
  const Samples fenced = Measure(rounds, kPairs, [&] { requests.ServeWithFence(kPairs); });
  report.Add("pool_ns", fenced);
  BareAllocator bare(sizes);
  report.Add("pool_allocator_ns", Measure(rounds, kPairs, [&] { bare.Serve(kPairs); }));
  report.Add("pool_no_fence_ns", Measure(rounds, kPairs, [&] { requests.Serve(kPairs); }));
  report.Add("pool_2_threads_ns", Measure(rounds, kPairs, [&] {
               Mailbox one;
               Mailbox other;
               std::thread thread([&] { ServeWithOther(pool, sizes, kPairs, one, other); });
               ServeWithOther(pool, sizes, kPairs, other, one);
               thread.join();
             }));
  const Samples scope =
      Measure(rounds, kScopes * kScopeBuffers, [&] { requests.ServeScopes(kScopes); });
  report.Add("scope_ns", scope);
  report.AddGoal("pool, acquire and release, ns", fenced.Median(), 80);
  report.AddGoal("scope, buffer, ns", scope.Median(), 15);
}

}  // namespace tenure::bench
