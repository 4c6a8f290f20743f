// A client is killed while its kernel writes a buffer that takes all runtime memory. Until it has
// exited nobody else gets the memory; then no byte of the next owner changes.

#include <string>
#include <thread>

#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/served_models.h"

namespace tenure::trial {
namespace {

using bench::Milliseconds;

// How long the kernel would run: the writer is killed long before, and what the next owner has
// written is looked at until it would have ended.
constexpr auto kWriting = std::chrono::seconds(6);
constexpr auto kPatience = std::chrono::seconds(20);
constexpr Bytes kRuntime = MiB(256);
constexpr uint64_t kPattern = 0x7E57;

}  // namespace

void RunWriterDeath(const Setting& setting) {
  Kernels::RequireCalls();
  const ServedModels served({.payload = MiB(64), .capacity = MiB(128), .runtime = kRuntime});
  const Gpu gpu;
  const Kernels kernels(gpu);
  Child writer("writer",
               {served.daemon().directory(), std::to_string(kRuntime.count()),
                std::to_string(kWriting.count())},
               setting.temp);
  Receive(writer.socket(), "writing");
  const SteadyClock clock;
  const Instant begun = clock.Now();
  auto pool = served.client().OpenPool({.wait = kPatience});
  if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
  setting.findings.Check(
      "nobody takes what a living client writes",
      absl::IsResourceExhausted(served.client().OpenPool()->Acquire(kRuntime.count()).status()));

  writer.Kill();
  const Instant killed = clock.Now();
  auto buffer = pool->Acquire(kRuntime.count());
  if (!buffer.ok()) throw std::runtime_error(buffer.status().ToString());
  setting.findings.Check("the memory went to nobody before the writer had exited",
                         writer.Ended(Duration::zero()));
  setting.findings.Figure("killed_until_granted_ms", Milliseconds(clock.Now() - killed));

  const auto at = reinterpret_cast<CUdeviceptr>(buffer->data());
  gpu.Fill(at, kRuntime, kPattern);
  bool unchanged = true;
  do {
    unchanged = unchanged && gpu.Shows(at, kRuntime, kPattern);
  } while (unchanged && clock.Now() - begun < kWriting + std::chrono::seconds(1));
  setting.findings.Check("no byte of the next owner changes", unchanged);
}

}  // namespace tenure::trial
