// What a planned slot costs, beside the allocations that it replaces. Needs no daemon: the plans
// are made here, and nobody touches the memory.

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "client/cpp/plan_cache.h"
#include "core/plan/validate_plan.h"
#include "tests/bench/samples.h"
#include "tests/client/plain_segments.h"

namespace tenure::bench {
namespace {

using client::InputOf;
using client::PlainPool;

constexpr size_t kBuffers = 10'000;
constexpr int kRepeats = 50;
constexpr int kRequests = 2'000;
constexpr size_t kSmall = 100;

// Layer by layer: each buffer is used by the next three ones.
std::vector<BufferUse> MakeUses(size_t count) {
  std::vector<BufferUse> uses;
  for (size_t i = 0; i < count; ++i) {
    const auto step = static_cast<int64_t>(i);
    uses.push_back({.id = "layers." + std::to_string(i) + ".out",
                    .bytes = 256 * (1 + i * 7919 % 61),
                    .first_use = step,
                    .end = step + 4});
  }
  return uses;
}

template <typename Work>
double NanosOf(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

void Check(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

// Acquires and releases all buffers of a request in their order.
void Serve(PlannedSlot& slot, const std::vector<BufferUse>& uses) {
  for (size_t i = 0; i < uses.size(); ++i) {
    Check(slot.Acquire(i, uses[i].bytes).status());
    if (i >= 3) Check(slot.Release(i - 3));
  }
  for (size_t i = uses.size() - 3; i < uses.size(); ++i) Check(slot.Release(i));
}

void AddPlanFigures(Report& report) {
  const PlainPool pool;
  const std::vector<BufferUse> uses = MakeUses(kBuffers);
  const BufferPlan plan = *pool.pool.Plan(uses, {.budget = std::chrono::milliseconds(0)});
  const PlanInput input = InputOf(uses);
  std::vector<Bytes> offsets;
  for (const uint64_t offset : plan.offsets()) offsets.emplace_back(offset);
  Samples found;
  Samples digest;
  Samples validated;
  Samples checked;
  for (int i = 0; i < kRepeats; ++i) {
    found.Add(NanosOf([&] {
                Check(pool.pool.Plan(uses, {.budget = std::chrono::milliseconds(0)}).status());
              }) /
              1e3);
    digest.Add(NanosOf([&] {
                 if (client::DigestOf(uses) == 0) throw std::runtime_error("no digest");
               }) /
               1e3);
    validated.Add(NanosOf([&] { Check(ValidatePlan(input, offsets, Bytes(plan.height()))); }) /
                  1e6);
    checked.Add(NanosOf([&] { Check(plan.Check(uses)); }) / 1e6);
  }
  report.Add("plan_found_10000_us", found);
  report.Add("plan_digest_10000_us", digest);
  report.Add("plan_validated_10000_ms", validated);
  report.Add("plan_checked_10000_ms", checked);
  report.AddGoal("a plan of 10,000 buffers is found, us", found.Median(), 100);
  report.AddGoal("a plan of 10,000 buffers is validated, ms", validated.Median(), 2);
}

void AddSlotFigures(int rounds, Report& report) {
  Samples opened;
  Samples buffer;
  Samples buffer_of_pool;
  Samples buffer_of_malloc;
  const std::vector<BufferUse> uses = MakeUses(kSmall);
  for (int round = 0; round < rounds; ++round) {
    const PlainPool pool;
    const BufferPlan plan = *pool.pool.Plan(uses);
    Check(plan.OpenSlot()->Close());
    opened.Add(NanosOf([&] {
                 for (int i = 0; i < kRequests; ++i) Check(plan.OpenSlot()->Close());
               }) /
               kRequests);
    PlannedSlot slot = *plan.OpenSlot();
    Serve(slot, uses);
    buffer.Add(NanosOf([&] {
                 for (int i = 0; i < kRequests; ++i) Serve(slot, uses);
               }) /
               (kRequests * kSmall));
    const auto serve_unplanned = [&] {
      for (const BufferUse& use : uses) Check(pool.pool.Acquire(use.bytes).status());
    };
    serve_unplanned();
    buffer_of_pool.Add(NanosOf([&] {
                         for (int i = 0; i < kRequests; ++i) serve_unplanned();
                       }) /
                       (kRequests * kSmall));
    buffer_of_malloc.Add(NanosOf([&] {
                           for (int i = 0; i < kRequests; ++i) {
                             for (const BufferUse& use : uses) {
                               void* volatile memory = std::malloc(use.bytes);
                               std::free(memory);
                             }
                           }
                         }) /
                         (kRequests * kSmall));
  }
  report.Add("slot_opened_and_closed_ns", opened);
  report.Add("slot_buffer_ns", buffer);
  report.Add("pool_buffer_ns", buffer_of_pool);
  report.Add("malloc_ns", buffer_of_malloc);
}

int Main(int argc, char** argv) {
  CLI::App app("Measures planned slots.");
  int rounds = 10;
  std::string json;
  app.add_option("--rounds", rounds, "how often slots are measured");
  app.add_option("--json", json, "where the figures are written");
  CLI11_PARSE(app, argc, argv);
  Report report;
  AddPlanFigures(report);
  AddSlotFigures(rounds, report);
  report.PrintTable();
  if (!json.empty()) report.WriteJson(json);
  return 0;
}

}  // namespace
}  // namespace tenure::bench

int main(int argc, char** argv) {
  try {
    return tenure::bench::Main(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "slots-bench: " << error.what() << '\n';
    return 1;
  }
}
