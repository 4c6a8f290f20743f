// planner-bench: how low plans get in how much time, over the largest sum of sizes alive at once,
// beside greedy placement by size in the same run. Times are those of the thread, so that what else
// runs on the machine counts less. Every plan is validated, outside the clock.

#include <algorithm>
#include <chrono>
#include <ctime>
#include <exception>
#include <iostream>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/plan/make_plan.h"
#include "core/plan/validate_plan.h"
#include "tests/bench/samples.h"
#include "tests/support/plan_instances.h"

namespace tenure::bench {
namespace {

using std::chrono::milliseconds;

constexpr Bytes kCapacity = MiB(1);

class ThreadClock final : public Clock {
 public:
  Instant Now() const override {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return Instant(std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec));
  }
};

double Milliseconds(Duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

struct Instance {
  std::string name;
  PlanInput input{};
  PlanProblem problem{};
};

Instance MakeInstance(std::string name, PlanInput input) {
  StatusOr<PlanProblem> problem = MakePlanProblem(input);
  if (!problem.ok()) throw std::runtime_error(problem.status().ToString());
  return {std::move(name), std::move(input), *std::move(problem)};
}

// Named after its file, without the capacity there.
Instance Read(const std::string& file) {
  std::string name = file.substr(file.rfind('/') + 1);
  return MakeInstance(name.substr(0, name.find(".1048576")), ReadPlanInstance(file));
}

// The `count` buffers that begin first.
Instance FirstOf(const Instance& whole, const std::string& name, size_t count) {
  PlanInput input = whole.input;
  std::ranges::stable_sort(input, {}, &PlanBuffer::first_use);
  input.resize(count);
  return MakeInstance(name, std::move(input));
}

void Check(const Instance& instance, const std::vector<Bytes>& of_storage, Bytes height) {
  std::vector<Bytes> offsets;
  for (const uint32_t storage : instance.problem.storage_of) {
    offsets.push_back(of_storage[storage]);
  }
  const Status status = ValidatePlan(instance.input, offsets, height);
  if (!status.ok()) throw std::runtime_error(instance.name + ": " + status.ToString());
}

struct Measured {
  double ratio;  // height over lower bound
  double ms;
  bool proven;
  bool fits;  // the capacity
};

Measured Measure(const Instance& instance, Duration budget,
                 std::optional<Bytes> capacity = std::nullopt) {
  const ThreadClock clock;
  const Instant start = clock.Now();
  const Plan plan = MakePlan(instance.problem, {.budget = budget, .capacity = capacity}, clock);
  const double ms = Milliseconds(clock.Now() - start);
  Check(instance, plan.offsets, plan.height);
  return {.ratio = static_cast<double>(plan.height.count()) /
                   static_cast<double>(plan.lower_bound.count()),
          .ms = ms,
          .proven = plan.proven,
          .fits = plan.height <= capacity.value_or(plan.height)};
}

// The largest first, each at the lowest place that is free, found by a look at all others.
Measured Greedy(const Instance& instance) {
  const std::vector<Storage>& storages = instance.problem.storages;
  const ThreadClock clock;
  const Instant start = clock.Now();
  std::vector<uint32_t> order(storages.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater{}, [&](uint32_t i) { return storages[i].size; });
  std::vector<Bytes> offsets(storages.size());
  std::vector<uint32_t> placed;  // by offset
  Bytes height;
  for (const uint32_t which : order) {
    Bytes offset;
    for (const uint32_t other : placed) {
      if (!AliveTogether(storages[which], storages[other])) continue;
      if (offset + storages[which].size <= offsets[other]) break;
      offset = std::max(offset, offsets[other] + storages[other].size);
    }
    offsets[which] = offset;
    height = std::max(height, offset + storages[which].size);
    placed.insert(
        std::ranges::upper_bound(placed, offset, {}, [&](uint32_t i) { return offsets[i]; }),
        which);
  }
  const double ms = Milliseconds(clock.Now() - start);
  Check(instance, offsets, height);
  const Bytes bound = LowerBound(instance.problem);
  return {.ratio = static_cast<double>(height.count()) / static_cast<double>(bound.count()),
          .ms = ms,
          .proven = height == bound,
          .fits = true};
}

struct Budget {
  std::string name;
  milliseconds time;
  int rounds;  // of which the median counts
  // Goals for the eleven together, where there are any.
  double mean = 0;
  double worst = 0;
  int proven = 0;
};

const std::vector<Budget> kBudgets = {
    {"1ms", milliseconds(1), 5, 1.25, 1.35, 0},  {"10ms", milliseconds(10), 5, 1.12, 1.2, 0},
    {"100ms", milliseconds(100), 3, 1.04, 0, 6}, {"1s", milliseconds(1000), 1, 1.01, 0, 9},
    {"10s", milliseconds(10000), 1, 0, 0, 0},
};

// The run of the middle ratio, with the middle time.
Measured Median(const Instance& instance, Duration budget, int rounds) {
  std::vector<Measured> runs;
  Samples ms;
  for (int i = 0; i < rounds; ++i) {
    runs.push_back(Measure(instance, budget));
    ms.Add(runs.back().ms);
  }
  std::ranges::sort(runs, {}, &Measured::ratio);
  Measured median = runs[runs.size() / 2];
  median.ms = ms.Median();
  return median;
}

void AddTight(const std::vector<Instance>& instances, const Budget& budget, Report& report) {
  double sum = 0;
  double worst = 0;
  double overrun = 0;
  int proven = 0;
  for (const Instance& instance : instances) {
    const Measured run = Median(instance, budget.time, budget.rounds);
    report.Add(instance.name + "_" + budget.name, run.ratio);
    sum += run.ratio;
    worst = std::max(worst, run.ratio);
    proven += run.proven ? 1 : 0;
    overrun = std::max(overrun, run.ms - Milliseconds(budget.time));
  }
  const double mean = sum / static_cast<double>(instances.size());
  report.Add("tight_" + budget.name + "_mean", mean);
  report.Add("tight_" + budget.name + "_worst", worst);
  report.Add("tight_" + budget.name + "_proven", proven);
  report.Add("tight_" + budget.name + "_overrun_ms", overrun);
  if (budget.mean > 0) report.AddGoal("mean at " + budget.name, mean, budget.mean);
  if (budget.worst > 0) report.AddGoal("worst at " + budget.name, worst, budget.worst);
  if (budget.proven > 0) {
    report.AddGoal("not proven at " + budget.name, 11 - proven, 11 - budget.proven);
  }
}

void AddCapacity(const std::vector<Instance>& instances, Report& report) {
  double together = 0;
  for (const Instance& instance : instances) {
    Samples ms;
    for (int i = 0; i < 7; ++i) {
      const Measured run = Measure(instance, std::chrono::seconds(60), kCapacity);
      if (!run.fits) throw std::runtime_error(instance.name + " does not fit its capacity");
      ms.Add(run.ms);
    }
    report.Add(instance.name + "_capacity_ms", ms);
    together += ms.Median();
  }
  report.Add("capacity_together_ms", together);
  report.AddGoal("all eleven at their capacity, ms", together, 1000);
}

struct RealGoal {
  Budget budget;
  double ratio = 0;  // none
};

void AddReal(const Instance& instance, const std::vector<RealGoal>& goals, Report& report) {
  for (const auto& [budget, ratio] : goals) {
    const std::string key = instance.name + "_" + budget.name;
    const Measured run = Median(instance, budget.time, budget.rounds);
    report.Add(key, run.ratio);
    report.Add(key + "_taken_ms", run.ms);
    if (ratio == 0) continue;
    report.AddGoal(instance.name + " at " + budget.name, run.ratio, ratio);
    report.AddGoal(instance.name + " at " + budget.name + ", ms", run.ms,
                   Milliseconds(budget.time));
  }
}

void AddGreedy(const std::vector<Instance>& instances, Report& report) {
  double sum = 0;
  for (const Instance& instance : instances) {
    const Measured run = Greedy(instance);
    report.Add("greedy_" + instance.name, run.ratio);
    report.Add("greedy_" + instance.name + "_ms", run.ms);
    sum += run.ratio;
  }
  if (instances.size() == 11) report.Add("greedy_tight_mean", sum / 11);
}

int Run(const std::string& longest, const std::string& json) {
  std::vector<Instance> tight;
  for (const std::string& file : TightPlanInstances()) tight.push_back(Read(file));
  Report report;
  AddCapacity(tight, report);
  for (const Budget& budget : kBudgets) {
    AddTight(tight, budget, report);
    if (budget.name == longest) break;
  }
  std::vector<Instance> real;
  for (const std::string file :
       {"idealloc/somas_tensors/resnet50", "idealloc/iopddl/G_1",
        "idealloc/somas_tensors/pangu_2.6B", "idealloc/iopddl/S_1", "idealloc/iopddl/Y_1"}) {
    real.push_back(Read(file));
  }
  real.push_back(FirstOf(real.back(), "Y_1_10000", 10'000));
  real.push_back(FirstOf(real[3], "S_1_10000", 10'000));
  const Budget ms1{"1ms", milliseconds(1), 9};
  const Budget ms10{"10ms", milliseconds(10), 5};
  const Budget ms100{"100ms", milliseconds(100), 3};
  const Budget ms250{"250ms", milliseconds(250), 3};
  const Budget s1{"1s", milliseconds(1000), 1};
  AddReal(real[0], {{ms1, 1.01}, {ms10}, {ms100, 1}}, report);
  AddReal(real[1], {{ms1, 1.01}, {ms10}, {ms100, 1}}, report);
  AddReal(real[2], {{ms10}, {ms250}, {s1}}, report);
  AddReal(real[3], {{ms10}, {ms250}, {s1}}, report);
  AddReal(real[4], {{ms10}, {ms250, 1.005}, {s1}}, report);
  AddReal(real[5], {{ms10, 1.01}}, report);
  AddReal(real[6], {{ms10}, {ms100}}, report);
  AddGreedy(tight, report);
  AddGreedy(real, report);
  report.PrintTable();
  if (!json.empty()) report.WriteJson(json);
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  CLI::App app("How low plans get in how much time.", "planner-bench");
  std::string longest = "10s";
  std::string json;
  app.add_option("--longest", longest, "The longest budget of the tight instances")
      ->check(CLI::IsMember({"1ms", "10ms", "100ms", "1s", "10s"}));
  app.add_option("--json", json, "Where to write the figures")->type_name("FILE");
  CLI11_PARSE(app, argc, argv);
  try {
    return tenure::bench::Run(longest, json);
  } catch (const std::exception& error) {
    std::cerr << "planner-bench: " << error.what() << std::endl;
    return 1;
  }
}
