#include "tests/bench/allocator_figures.h"

#include <algorithm>
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "core/arena/offset_allocator.h"
#include "core/base/check.h"
#include "tests/bench/baselines.h"
#include "tests/bench/buffer_sizes.h"
#include "tests/bench/map_allocator.h"

namespace tenure::bench {
namespace {

// More than anything here reaches: nothing is ever refused.
constexpr Range kAll(Bytes(0), Bytes(uint64_t{1} << 60));
constexpr uint64_t kMallocDivisor = 32768;
// How many requests ahead the block to be freed is looked up.
constexpr size_t kAhead = 16;

struct Count {
  const char* name;
  uint32_t live;
  uint32_t pairs_per_round;
};
constexpr Count kFew = {.name = "100", .live = 100, .pairs_per_round = 200'000};
constexpr Count kMany = {.name = "10k", .live = 10'000, .pairs_per_round = 200'000};
constexpr Count kMost = {.name = "1m", .live = 1'000'000, .pairs_per_round = 500'000};

// A live block is freed, and one of this size takes its place.
struct Request {
  uint32_t replaced;
  Bytes size;
};

// The same requests for everyone: `live` blocks one after the other, then replacements.
std::vector<Request> MakeRequests(const Count& count, size_t replacements) {
  std::mt19937_64 random(count.live);
  std::uniform_int_distribution<uint32_t> any(0, count.live - 1);
  BufferSizes sizes;
  std::vector<Request> requests;
  requests.reserve(count.live + replacements);
  for (uint32_t i = 0; i < count.live; ++i) requests.push_back({i, sizes.Next(random)});
  for (size_t i = 0; i < replacements; ++i) requests.push_back({any(random), sizes.Next(random)});
  return requests;
}

class OffsetFit {
 public:
  using Block = OffsetAllocator::Block;
  OffsetFit() { allocator_.Add(kAll); }
  Block Allocate(Bytes size) { return *allocator_.Allocate(size); }
  void Free(const Block& block) { allocator_.Free(block); }

 private:
  OffsetAllocator allocator_;
};

template <FitPolicy policy>
class MapFit {
 public:
  using Block = MapAllocator::Block;
  Block Allocate(Bytes size) { return *allocator_.Allocate(size); }
  void Free(const Block& block) { allocator_.Free(block); }

 private:
  MapAllocator allocator_{policy, kAll.end()};
};

class Malloc {
 public:
  struct Block {
    Bytes offset;
    Bytes size;
  };
  Block Allocate(Bytes size) {
    size = Bytes(size.count() / kMallocDivisor);
    void* const memory = std::malloc(size.count());  // NOLINT: it is what is measured
    if (memory == nullptr) throw std::bad_alloc();
    return {.offset = Bytes(reinterpret_cast<uintptr_t>(memory)), .size = size};
  }
  void Free(const Block& block) {
    std::free(reinterpret_cast<void*>(block.offset.count()));  // NOLINT: likewise
  }
};

struct Outcome {
  Samples operation_ns;
  Samples pair_ns;
  double high_over_live = 0;
};

// One allocator, or Fit, that serves requests one after the other.
template <typename Fit>
class Replay {
 public:
  using Block = typename Fit::Block;

  Replay(const Count& count, const std::vector<Request>& requests) : requests_(requests) {
    blocks_.reserve(count.live);
    for (; next_ < count.live; ++next_) {
      blocks_.push_back(fit_.Allocate(requests_[next_].size));
      live_ += blocks_.back().size;
      low_ = std::min(low_, blocks_.back().offset);
      Note(blocks_.back());
    }
  }
  ~Replay() {
    for (const Block& block : blocks_) fit_.Free(block);
  }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void Serve(size_t pairs) {
    for (const size_t end = next_ + pairs; next_ < end; ++next_) {
      // Keeps the misses of the caller's own table out of what is measured.
      const size_t ahead = std::min(next_ + kAhead, requests_.size() - 1);
      __builtin_prefetch(&blocks_[requests_[ahead].replaced]);
      Block& block = blocks_[requests_[next_].replaced];
      live_ -= block.size;
      fit_.Free(block);
      block = fit_.Allocate(requests_[next_].size);
      live_ += block.size;
      Note(block);
    }
  }

  double high_over_live() const {
    return static_cast<double>((high_ - low_).count()) / static_cast<double>(most_live_.count());
  }

 private:
  void Note(const Block& block) {
    high_ = std::max(high_, block.offset + block.size);
    most_live_ = std::max(most_live_, live_);
  }

  const std::vector<Request>& requests_;
  Fit fit_;
  std::vector<Block> blocks_;
  size_t next_ = 0;
  Bytes live_;
  Bytes most_live_;
  Bytes low_{UINT64_MAX};
  Bytes high_;
};

// A 1/`share` of the requests, of which the last `rounds` parts are measured; those before bring
// the allocator to the state that it then stays in.
template <typename Fit>
Outcome Measure(const Count& count, const std::vector<Request>& requests, int rounds,
                size_t share = 1) {
  Replay<Fit> replay(count, requests);
  const size_t pairs = count.pairs_per_round / share;
  const size_t all = requests.size() - count.live;
  replay.Serve(all / share - static_cast<size_t>(rounds) * pairs);
  Outcome outcome;
  for (int i = 0; i < rounds; ++i) {
    const Duration took = TimeOf([&] { replay.Serve(pairs); });
    const double pair_ns =
        std::chrono::duration<double, std::nano>(took).count() / static_cast<double>(pairs);
    outcome.pair_ns.Add(pair_ns);
    outcome.operation_ns.Add(pair_ns / 2);
  }
  outcome.high_over_live = replay.high_over_live();
  return outcome;
}

class Figures {
 public:
  Figures(int rounds, Report& report) : rounds_(rounds), report_(report) {}

  // Measures everyone, and returns the medians that there are goals for.
  struct Medians {
    double allocator;
    double best_fit;
  };
  Medians Add(const Count& count) {
    // Settled once every block was replaced several times.
    const size_t settling = std::max<size_t>(size_t{3} * count.live, count.pairs_per_round);
    const size_t measured = static_cast<size_t>(rounds_) * count.pairs_per_round;
    const std::vector<Request> requests = MakeRequests(count, settling + measured);
    // Ahead of everyone whose nodes would leave holes in its heap.
    const Outcome malloc = Measure<Malloc>(count, requests, rounds_);
    malloc_trim(0);
    const Outcome allocator = Measure<OffsetFit>(count, requests, rounds_);
    AddOne("allocator", count, allocator);
    report_.Add(std::string("allocator_") + count.name + "_pair_ns", allocator.pair_ns);
    const Outcome best_fit = Measure<MapFit<FitPolicy::kBest>>(count, requests, rounds_);
    AddOne("best_fit", count, best_fit);
    const bool limited = count.live == kMost.live;
    const Outcome first_fit =
        Measure<MapFit<FitPolicy::kFirst>>(count, requests, rounds_, limited ? 100 : 1);
    AddOne("first_fit", count, first_fit, !limited);
    AddOne("worst_fit", count, Measure<MapFit<FitPolicy::kWorst>>(count, requests, rounds_));
    AddOne("malloc", count, malloc);
    return {allocator.operation_ns.Median(), best_fit.operation_ns.Median()};
  }

 private:
  void AddOne(const std::string& name, const Count& count, const Outcome& outcome,
              bool with_high = true) {
    const std::string key = name + "_" + count.name;
    report_.Add(key + "_ns", outcome.operation_ns);
    if (with_high) report_.Add(key + "_high_over_live", outcome.high_over_live);
  }

  const int rounds_;
  Report& report_;
};

}  // namespace

void AddAllocatorFigures(int rounds, Report& report) {
  Figures figures(rounds, report);
  const Figures::Medians few = figures.Add(kFew);
  const Figures::Medians many = figures.Add(kMany);
  const Figures::Medians most = figures.Add(kMost);
  report.AddGoal("allocator with 100 blocks, ns", few.allocator, 60);
  report.AddGoal("allocator with 10,000 blocks, ns", many.allocator, 60);
  report.AddGoal("allocator with 1,000,000 blocks / best fit", most.allocator / most.best_fit, 1);
  report.AddGoal("allocator with 1,000,000 blocks / with 100", most.allocator / few.allocator, 10);
}

}  // namespace tenure::bench
