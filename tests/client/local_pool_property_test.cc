// Random operations on a pool and on a model that is nothing but the list of what is live and of
// what is kept by fences, compared after each.

#include <algorithm>
#include <array>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

constexpr size_t kTimelines = 3;

class RandomWalk : private PlainPool {
 public:
  explicit RandomWalk(uint32_t seed) : seed_(seed), random_(seed) {
    segments->set_most(12);
    for (std::atomic<bool>& event : events_) event = false;
  }

  void Do(int steps) {
    for (int step = 1; step <= steps && !testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(testing::Message() << "seed " << seed_ << " step " << step);
      Step();
      Compare();
    }
    live_.clear();
    scopes_.clear();
  }

  int refused() const { return refused_; }

 private:
  struct Kept {
    uint64_t offset;
    uint64_t end;
    std::vector<std::pair<size_t, uint64_t>> fences;  // timeline and value; the last one: an event
  };
  struct OpenScope {
    BufferScope scope;
    std::vector<ScopeBuffer> buffers;
    std::vector<Kept> kept;  // once it is released
  };

  uint64_t Below(uint64_t limit) {
    return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_);
  }
  uint64_t AnySize() { return 1 + Below(uint64_t{1} << (8 + Below(16))); }
  BufferKind AnyKind() { return static_cast<BufferKind>(Below(3)); }
  static uint64_t Up(uint64_t bytes) { return (bytes + 255) / 256 * 256; }

  void Step() {
    switch (Below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return AcquireOne();
      case 4:
      case 5:
      case 6:
        return ReleaseOne();
      case 7: {
        const size_t i = Below(kTimelines);
        return timelines_[i].Advance(timelines_[i].value() + Below(3));
      }
      case 8:
        if (Below(4) == 0) events_[Below(events_.size())] = true;
        return;
      case 9:
        now_ += std::chrono::milliseconds(Below(2000));
        if (Below(3) == 0) {
          local->GiveBack(Below(3 * kSegment));
        } else {
          local->Sweep(now_);
        }
        return;
      case 10:
        return UseScope();
      default:
        return EndScope();
    }
  }

  bool IsReached(const Kept& kept) const {
    return std::all_of(kept.fences.begin(), kept.fences.end(), [&](const auto& fence) {
      return fence.first < kTimelines ? timelines_[fence.first].value() >= fence.second
                                      : events_[fence.second].load();
    });
  }
  std::pair<Fence, std::pair<size_t, uint64_t>> AnyFence() {
    const size_t i = Below(kTimelines + 1);
    if (i == kTimelines) {
      const size_t event = Below(events_.size());
      return {Fence::CudaEvent(&events_[event]), {i, event}};
    }
    const uint64_t value = timelines_[i].value() + Below(6);
    return {Fence::At(timelines_[i], value), {i, value}};
  }

  void ExpectUnused(uint64_t offset, uint64_t bytes) {
    const uint64_t end = offset + Up(bytes);
    const auto overlaps = [&](uint64_t begin, uint64_t to) { return begin < end && offset < to; };
    for (const PoolBuffer& buffer : live_) {
      EXPECT_FALSE(overlaps(buffer.offset(), buffer.offset() + Up(buffer.size_bytes())));
    }
    for (const OpenScope& scope : scopes_) {
      for (const ScopeBuffer& buffer : scope.buffers) {
        EXPECT_FALSE(overlaps(buffer.offset, buffer.offset + Up(buffer.size_bytes)));
      }
    }
    for (const Kept& kept : kept_)
      EXPECT_FALSE(!IsReached(kept) && overlaps(kept.offset, kept.end));
  }

  void AcquireOne() {
    const uint64_t bytes = AnySize();
    const uint64_t alignment = uint64_t{1} << Below(22);
    absl::StatusOr<PoolBuffer> buffer = pool.Acquire(
        bytes, {.alignment = alignment, .kind = AnyKind()}, {.timeout = std::chrono::seconds(0)});
    if (!buffer.ok()) {
      ++refused_;
      return;
    }
    EXPECT_EQ(buffer->offset() % alignment, 0u);
    ExpectUnused(buffer->offset(), bytes);
    live_.push_back(*std::move(buffer));
  }

  void ReleaseOne() {
    if (live_.empty()) return;
    std::swap(live_[Below(live_.size())], live_.back());
    PoolBuffer buffer = std::move(live_.back());
    live_.pop_back();
    std::vector<Fence> fences;
    Kept kept{
        .offset = buffer.offset(), .end = buffer.offset() + Up(buffer.size_bytes()), .fences = {}};
    for (uint64_t n = Below(4); n > 0; --n) {
      const auto [fence, model] = AnyFence();
      fences.push_back(fence);
      kept.fences.push_back(model);
    }
    EXPECT_TRUE(buffer.Release(fences).ok());
    kept_.push_back(kept);
  }

  void UseScope() {
    if (scopes_.empty() || (scopes_.size() < 3 && Below(8) == 0)) {
      scopes_.push_back({.scope = pool.OpenScope(AnyKind()), .buffers = {}, .kept = {}});
    }
    OpenScope& scope = scopes_[Below(scopes_.size())];
    const uint64_t bytes = AnySize() / 4 + 1;
    const absl::StatusOr<ScopeBuffer> buffer =
        scope.scope.Acquire(bytes, 256, {.timeout = std::chrono::seconds(0)});
    if (!buffer.ok()) {
      ++refused_;
      return;
    }
    ExpectUnused(buffer->offset, bytes);
    scope.buffers.push_back(*buffer);
    for (uint64_t n = Below(3); n > 0; --n) {
      const auto [fence, model] = AnyFence();
      EXPECT_TRUE(scope.scope.KeepUntil(*buffer, fence).ok());
      scope.kept.push_back(
          {.offset = buffer->offset, .end = buffer->offset + Up(bytes), .fences = {model}});
    }
  }

  void EndScope() {
    if (scopes_.empty() || Below(3) != 0) return;
    std::swap(scopes_[Below(scopes_.size())], scopes_.back());
    OpenScope scope = std::move(scopes_.back());
    scopes_.pop_back();
    EXPECT_TRUE(scope.scope.Release().ok());
    kept_.insert(kept_.end(), scope.kept.begin(), scope.kept.end());
  }

  void Compare() {
    local->Validate();
    EXPECT_EQ(segments->bad(), 0);
    EXPECT_EQ(pool.held_bytes(), segments->granted_bytes());
    std::erase_if(kept_, [&](const Kept& kept) { return IsReached(kept); });
    // All fences that are reached are seen now.
    local->GiveBack(0);
    std::map<uint64_t, uint64_t> kept;  // a buffer may be kept by several
    for (const Kept& one : kept_) kept[one.offset] = one.end - one.offset;
    uint64_t used = 0;
    for (const auto& [offset, bytes] : kept) used += bytes;
    for (const PoolBuffer& buffer : live_) used += Up(buffer.size_bytes());
    uint64_t of_scopes = 0;
    for (const OpenScope& scope : scopes_) {
      for (const ScopeBuffer& buffer : scope.buffers) of_scopes += Up(buffer.size_bytes);
    }
    if (of_scopes == 0) {
      EXPECT_EQ(pool.used_bytes(), used);
    } else {
      EXPECT_GE(pool.used_bytes(), used + of_scopes);
    }
  }

  const uint32_t seed_;
  std::mt19937_64 random_;
  Instant now_ = Now();
  std::array<Timeline, kTimelines> timelines_;
  std::array<std::atomic<bool>, 8> events_;
  std::vector<PoolBuffer> live_;
  std::vector<OpenScope> scopes_;
  std::vector<Kept> kept_;
  int refused_ = 0;
};

TEST(LocalPoolPropertyTest, NoMemoryThatIsUsedOrReadIsHandedOut) {
  int refused = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    RandomWalk walk(seed);
    walk.Do(1'500);
    refused += walk.refused();
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace tenure::client
