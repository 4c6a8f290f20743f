// switch-bench: what it costs a client to go from one model to the next, beside what the machine
// takes for the same bytes without a daemon. A real daemon, real sockets; each round measures every
// figure once (the calls of microseconds several times), and every mapped byte is checked after
// each load, outside the clock.

#include <chrono>
#include <cstdint>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include <CLI/CLI.hpp>

#include "tenure/client.h"
#include "tests/bench/baselines.h"
#include "tests/bench/bench_model.h"
#include "tests/bench/samples.h"
#include "tests/bench/session_calls.h"
#include "tests/e2e/tenured.h"

namespace tenure::bench {
namespace {

using client::LoadResult;
using client::Retention;
using client::Reuse;

constexpr auto kPatience = std::chrono::seconds(30);
// How often a round measures what takes microseconds.
constexpr int kCallsPerRound = 5;

class SwitchBench {
 public:
  explicit SwitchBench(Bytes payload)
      : specs_(BenchModel::Specs(payload)),
        a_("a", daemon_.ModelPath("a.safetensors"), specs_, 1),
        b_("b", daemon_.ModelPath("b.safetensors"), specs_, 2),
        warm_(payload),
        spare_(payload) {
    warm_.Touch();
    spare_.Touch();
  }

  // Measures everything once. Nothing is held before and after.
  void Round() {
    fresh_.Add(Milliseconds(Load(a_, Reuse::kFresh)));
    const SharedMemory untouched(Bytes(lease_->size_bytes()));
    touch_fresh_.Add(Milliseconds(TimeOf([&] { untouched.Touch(); })));

    for (int i = 0; i < kCallsPerRound; ++i) {
      Release();
      resident_.Add(Microseconds(LoadAfterAnEqualOne(Reuse::kResident)));
      Release();
      Unload(a_);
      revived_.Add(Microseconds(LoadAfterAnEqualOne(Reuse::kRevived)));
    }

    const std::byte* const base = lease_->base();
    Release();
    Unload(a_);
    b_.ReadPayload(warm_.view());
    empty_cold_.Add(Microseconds(TimeOf([this] { calls_.Empty(); })));
    warm_pread_.Add(Milliseconds(TimeOf([&] { b_.ReadPayload(warm_.view()); })));
    const Duration adopted = Load(b_, Reuse::kAdopted, Retention(std::chrono::nanoseconds(0)));
    adopted_.Add(Milliseconds(adopted));
    adopt_overhead_.Add(Microseconds(adopted - phases_.read));
    adopt_read_.Add(Milliseconds(phases_.read));
    adopt_open_.Add(Microseconds(phases_.open + phases_.parse));
    adopt_place_.Add(Microseconds(phases_.place));
    adopt_publish_.Add(Microseconds(phases_.publish));
    adopt_call_.Add(Microseconds(adopted - phases_.total));
    if (lease_->base() != base) throw std::runtime_error("the addresses changed");
    memcpy_.Add(Milliseconds(TimeOf([&] { Copy(warm_.view(), spare_.view()); })));

    Release();
    Unload(b_);
    AwaitNothingHeld();
  }

  // Forgets what was measured so far.
  void Forget() {
    for (Samples* figure : {&fresh_, &touch_fresh_, &resident_, &revived_, &empty_, &empty_cold_,
                            &warm_pread_, &adopted_, &adopt_overhead_, &adopt_read_, &memcpy_,
                            &adopt_open_, &adopt_place_, &adopt_publish_, &adopt_call_}) {
      *figure = Samples();
    }
  }

  Report MakeReport() const {
    Report report;
    report.Add("adopted_ms", adopted_);
    report.Add("warm_pread_ms", warm_pread_);
    report.Add("memcpy_ms", memcpy_);
    report.Add("adopt_read_ms", adopt_read_);
    report.Add("adopt_overhead_us", adopt_overhead_);
    report.Add("adopt_open_parse_us", adopt_open_);
    report.Add("adopt_place_us", adopt_place_);
    report.Add("adopt_publish_us", adopt_publish_);
    report.Add("adopt_beyond_total_us", adopt_call_);
    report.Add("fresh_ms", fresh_);
    report.Add("touch_fresh_ms", touch_fresh_);
    report.Add("resident_us", resident_);
    report.Add("revived_us", revived_);
    report.Add("empty_unary_us", empty_);
    report.Add("empty_unary_cold_us", empty_cold_);

    const double pread = warm_pread_.Median();
    const double empty = empty_.Median();
    const double fresh_floor = touch_fresh_.Median() + pread;
    report.Add("adopted_over_pread", adopted_.Median() / pread);
    report.Add("adopted_over_memcpy", adopted_.Median() / memcpy_.Median());
    report.Add("fresh_over_adopted", fresh_.Median() / adopted_.Median());
    report.Add("fresh_over_touch_and_pread", fresh_.Median() / fresh_floor);
    report.Add("resident_over_empty", resident_.Median() / empty);
    report.Add("revived_over_empty", revived_.Median() / empty);
    report.Add("payload_bytes", static_cast<double>(a_.payload().count()));
    report.Add("tensors", static_cast<double>(specs_.size()));

    report.AddGoal("adopted / warm pread", adopted_.Median() / pread, 1.05);
    report.AddGoal("fresh / (touch fresh + warm pread)", fresh_.Median() / fresh_floor, 1);
    report.AddGoal("adopt overhead, us", adopt_overhead_.Median(), 300);
    report.AddGoal("resident / empty unary", resident_.Median() / empty, 2);
    report.AddGoal("revived / empty unary", revived_.Median() / empty, 2.5);
    return report;
  }

 private:
  // Loads and leases, checks what came of it, and says how long it took until the pointers were
  // there.
  Duration Load(const BenchModel& model, Reuse expected, const Retention& retention = {}) {
    const Duration took = LoadUnchecked(model, expected, retention);
    model.Check(*lease_);
    return took;
  }

  Duration LoadUnchecked(const BenchModel& model, Reuse expected, const Retention& retention) {
    absl::StatusOr<LoadResult> loaded;
    const Duration took = TimeOf([&] {
      loaded = client_.Load(
          {.name = model.name(), .path = model.path(), .retention = retention, .acquire = true});
    });
    if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
    if (loaded->reuse != expected) {
      throw std::runtime_error("a load of " + model.name() + " was " +
                               std::string(client::ReuseName(loaded->reuse)));
    }
    phases_ = loaded->phases;
    lease_ = std::move(loaded->lease);
    return took;
  }

  // Loads `a_`, once to bring back into the caches what the last check of its bytes drove out, and
  // once to measure, with an empty call measured between them.
  Duration LoadAfterAnEqualOne(Reuse expected) {
    LoadUnchecked(a_, expected, {});
    Release();
    if (expected == Reuse::kRevived) Unload(a_);
    empty_.Add(Microseconds(TimeOf([this] { calls_.Empty(); })));
    return Load(a_, expected);
  }

  // The mapping stays.
  void Release() {
    const absl::Status status = lease_->Release();
    if (!status.ok()) throw std::runtime_error(status.ToString());
    lease_.reset();
  }

  void Unload(const BenchModel& model) {
    const auto unloaded = client_.Unload(model.name());
    if (!unloaded.ok()) throw std::runtime_error(unloaded.status().ToString());
  }

  void AwaitNothingHeld() {
    const SteadyClock clock;
    const Instant give_up = After(clock.Now(), kPatience);
    while (client_.mapped_region_count() > 0 ||
           client_.Status()->devices.at(0).arenas.at(0).reserved > 0) {
      if (clock.Now() > give_up) throw std::runtime_error("the memory does not go back");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  Tenured daemon_{{.capacity = "4GiB", .segment_size = "64MiB", .cache_ttl = "0s"}};
  const Client client_ = daemon_.Connect("switch-bench");
  const SessionCalls calls_{daemon_.directory(), "switch-bench"};
  const std::vector<TensorSpec> specs_;
  const BenchModel a_;
  const BenchModel b_;
  const SharedMemory warm_;
  const SharedMemory spare_;

  std::optional<WeightLease> lease_;
  client::LoadPhases phases_;
  Samples fresh_, touch_fresh_, resident_, revived_, empty_, empty_cold_, warm_pread_, adopted_,
      adopt_overhead_, adopt_read_, memcpy_, adopt_open_, adopt_place_, adopt_publish_, adopt_call_;
};

int Run(int rounds, uint64_t mib, const std::string& json) {
  SwitchBench bench{MiB(mib)};
  bench.Round();
  bench.Forget();
  for (int i = 0; i < rounds; ++i) bench.Round();
  const Report report = bench.MakeReport();
  report.PrintTable();
  if (!json.empty()) report.WriteJson(json);
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  CLI::App app("What a switch from one model to the next costs.", "switch-bench");
  int rounds = 15;
  uint64_t mib = 1024;
  std::string json;
  app.add_option("--rounds", rounds, "How often everything is measured")
      ->check(CLI::Range(1, 1000));
  app.add_option("--mib", mib, "Size of each model in MiB")->check(CLI::Range(16, 16384));
  app.add_option("--json", json, "Where to write the figures")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenure::bench::Run(rounds, mib, json);
  } catch (const std::exception& error) {
    std::cerr << "switch-bench: " << error.what() << std::endl;
    return 1;
  }
}
