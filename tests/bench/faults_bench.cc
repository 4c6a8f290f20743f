// faults-bench: what the death of a client or of the daemon costs, and what a hundred connections
// that say nothing cost everybody else. A real daemon, real sockets, real processes.

#include <chrono>
#include <exception>
#include <iostream>
#include <optional>
#include <signal.h>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>

#include "tenure/client.h"
#include "tests/bench/baselines.h"
#include "tests/bench/samples.h"
#include "tests/bench/session_calls.h"
#include "tests/e2e/lease_holder.h"
#include "tests/e2e/models.h"
#include "tests/e2e/stalled_peers.h"
#include "tests/e2e/tenured.h"

namespace tenure::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);
constexpr size_t kStalled = 100;
// Calls of microseconds measured for each death.
constexpr int kCallsPerRound = 20;

// The calls that are measured beside an idle daemon, and again beside one with stalled peers.
struct Calls {
  Samples acquire, health, empty;
};

class FaultsBench {
 public:
  FaultsBench() { Connect(); }

  // A client dies that holds everything there is to hold.
  void KillClient() {
    LeaseHolder holder(daemon_, "a", a_.path);
    if (Leased() == 0) throw std::runtime_error("nothing is leased");
    holder.Kill();
    kill_to_free_.Add(Milliseconds(TimeOf([this] { AwaitNothingLeased(); })));
  }

  // The daemon dies and is started again at once.
  void KillDaemon() {
    client_.reset();
    calls_.reset();
    daemon_.Kill();
    restart_.Add(Milliseconds(TimeOf([this] { daemon_.Start(); })));
    Connect();
  }

  void MeasureCalls(int rounds) {
    Measure(rounds, idle_);
    const StalledPeers stalled(daemon_.directory(), kStalled);
    Measure(rounds, stalled_);
  }

  Report MakeReport() const {
    Report report;
    report.Add("kill_to_free_ms", kill_to_free_);
    report.Add("restart_ms", restart_);
    report.Add("acquire_us", idle_.acquire);
    report.Add("acquire_beside_stalled_us", stalled_.acquire);
    report.Add("health_us", idle_.health);
    report.Add("health_beside_stalled_us", stalled_.health);
    report.Add("empty_unary_us", idle_.empty);
    report.Add("empty_unary_beside_stalled_us", stalled_.empty);
    const auto ratio = [](const Samples& one, const Samples& other) {
      return one.Median() / other.Median();
    };
    report.Add("acquire_stalled_over_idle", ratio(stalled_.acquire, idle_.acquire));
    report.Add("health_stalled_over_idle", ratio(stalled_.health, idle_.health));
    report.Add("acquire_over_empty", ratio(idle_.acquire, idle_.empty));
    report.Add("stalled_connections", static_cast<double>(2 * kStalled));
    report.AddGoal("p99 of a client's end to its memory back, ms", kill_to_free_.Quantile(0.99),
                   1000);
    report.AddGoal("p99 of health beside stalled connections, us", stalled_.health.Quantile(0.99),
                   100'000);
    return report;
  }

 private:
  void Connect() {
    client_.emplace(daemon_.Connect("faults-bench"));
    calls_.emplace(daemon_.directory(), "faults-bench");
    const auto loaded = client_->Load({.name = "a", .path = a_.path});
    if (!loaded.ok()) throw std::runtime_error(loaded.status().ToString());
  }

  uint64_t Leased() const { return client_->Status()->devices.at(0).arenas.at(0).leased; }
  void AwaitNothingLeased() const {
    const SteadyClock clock;
    const Instant give_up = After(clock.Now(), kPatience);
    while (Leased() > 0) {
      if (clock.Now() > give_up) throw std::runtime_error("the memory does not come back");
    }
  }

  void Measure(int rounds, Calls& calls) const {
    for (int i = 0; i < rounds * kCallsPerRound; ++i) {
      calls.empty.Add(Microseconds(TimeOf([this] { calls_->Empty(); })));
      calls.health.Add(Microseconds(TimeOf([this] {
        if (!client::CheckHealth(daemon_.directory(), kPatience).value_or(false)) {
          throw std::runtime_error("the daemon is not healthy");
        }
      })));
      std::optional<WeightLease> lease;
      calls.acquire.Add(Microseconds(TimeOf([&] { lease = *client_->Acquire({.name = "a"}); })));
      if (const std::string wrong = i % kCallsPerRound == 0 ? Difference(*lease, a_) : "";
          !wrong.empty()) {
        throw std::runtime_error(wrong);
      }
    }
  }

  Tenured daemon_{{.capacity = "64MiB", .log_level = "error"}};
  const ModelFile a_ = WriteModel(daemon_, "a", {.target = MiB(16)}, 1);
  std::optional<Client> client_;
  std::optional<SessionCalls> calls_;

  Samples kill_to_free_, restart_;
  Calls idle_, stalled_;
};

int Run(int rounds, const std::string& json) {
  FaultsBench bench;
  for (int i = 0; i < rounds; ++i) bench.KillClient();
  bench.MeasureCalls(rounds);
  for (int i = 0; i < rounds / 5 + 1; ++i) bench.KillDaemon();
  const Report report = bench.MakeReport();
  report.PrintTable();
  if (!json.empty()) report.WriteJson(json);
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  CLI::App app("What deaths and silent peers cost.", "faults-bench");
  int rounds = 200;
  std::string json;
  app.add_option("--rounds", rounds, "How many clients are killed; a fifth as often the daemon")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--json", json, "Where to write the figures")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenure::bench::Run(rounds, json);
  } catch (const std::exception& error) {
    std::cerr << "faults-bench: " << error.what() << std::endl;
    return 1;
  }
}
