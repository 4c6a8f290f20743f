// What a client that has nothing to do with Tenure notices of it: how long its small kernels take
// while the daemon loads, creates and reclaims, beside an idle device, and beside a program that
// allocates and frees as many bytes with cuMemAlloc and cuMemFree.

#include <thread>

#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/latency_log.h"
#include "tests/gpu/trial/served_models.h"

namespace tenure::trial {
namespace {

using bench::Samples;
using client::LoadResult;
using client::Reuse;

constexpr int kRounds = 5;
constexpr auto kIdle = std::chrono::seconds(1);
constexpr Bytes kSegment = MiB(64);  // what the daemon allocates at a time

// The kernels that ran while something was done, over all times that it was done.
class Phase {
 public:
  Phase(const LatencyLog& log, std::string name) : log_(log), name_(std::move(name)) {}

  template <typename Work>
  void Watch(const Work& work) {
    const SteadyClock clock;
    const Instant from = clock.Now();
    work();
    for (const Duration took : log_.Within(from, clock.Now())) {
      kernels_.Add(bench::Microseconds(took));
      ++count_;
    }
  }

  void Tell(Findings& findings) const {
    findings.Figure("kernel_during_" + name_ + "_us", kernels_);
    findings.Figure("kernels_during_" + name_, static_cast<double>(count_));
  }

 private:
  const LatencyLog& log_;
  const std::string name_;
  Samples kernels_;
  uint64_t count_ = 0;
};

void AllocateAndFree(const Gpu& gpu, Bytes size, Phase& allocate, Phase& free) {
  std::vector<CUdeviceptr> places;
  allocate.Watch([&] {
    for (Bytes done; done < size; done += kSegment) places.push_back(gpu.Alloc(kSegment));
  });
  free.Watch([&] {
    for (const CUdeviceptr place : places) gpu.FreeAlloc(place);
  });
}

}  // namespace

void RunNeighbour(const Setting& setting) {
  Kernels::RequireCalls();
  const Gpu gpu;
  const std::string path = setting.temp + "/latencies";
  const LatencyLog log(path);
  Child ticker("ticker", {path}, setting.temp);
  Receive(ticker.socket(), "ticking");
  const ServedModels models({.payload = setting.model, .capacity = setting.model + kMostPadding});

  Phase idle(log, "idle");
  Phase create(log, "create_and_load");
  Phase load(log, "load");
  Phase reclaim(log, "reclaim");
  Phase allocate(log, "cumemalloc");
  Phase free(log, "cumemfree");
  idle.Watch([] { std::this_thread::sleep_for(kIdle); });
  for (int i = 0; i < kRounds; ++i) {
    LoadResult a;
    create.Watch([&] { a = models.Load(models.a(), Reuse::kFresh); });
    models.a().Check(*a.lease);
    models.GiveUp(a, models.a());
    LoadResult b;
    load.Watch([&] { b = models.Load(models.b(), Reuse::kAdopted, kNotRetained); });
    models.b().Check(*b.lease);
    reclaim.Watch([&] {
      models.GiveUp(b, models.b());
      models.AwaitNothingHeld();
    });
    for (int j = 0; j < kRounds; ++j) AllocateAndFree(gpu, setting.model, allocate, free);
  }
  for (const Phase* phase : {&idle, &create, &load, &reclaim, &allocate, &free}) {
    phase->Tell(setting.findings);
  }
  setting.findings.Check("the neighbour ran all the time", !ticker.Ended(Duration::zero()));
}

}  // namespace tenure::trial
