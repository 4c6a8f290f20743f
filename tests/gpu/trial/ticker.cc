// Runs a small kernel and waits for it, again and again, and logs how long each took. Says
// "ticking" after the first, and goes on until the part is gone. What it cannot do it says instead.

#include <exception>
#include <poll.h>

#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/latency_log.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {
namespace {

constexpr Bytes kSmall = KiB(64);

bool Silent(int socket) {
  pollfd part{.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&part, 1, 0) == 0;
}

void Tick(int socket, const std::string& path) {
  LatencyLog log(path);
  const Gpu gpu;
  const Kernels kernels(gpu);
  const Stream stream(gpu);
  const SummedRange range{
      .from = gpu.Alloc(kSmall), .size = kSmall, .sum = gpu.Alloc(Bytes(sizeof(uint64_t)))};
  gpu.Fill(range.from, kSmall, 1);
  const auto tick = [&] {
    kernels.SumBytes(range, stream.get());
    stream.Wait();
  };
  tick();
  Send(socket, "ticking");
  const SteadyClock clock;
  while (Silent(socket)) {
    const Instant began = clock.Now();
    tick();
    log.Add(began, clock.Now() - began);
  }
}

}  // namespace

int RunTicker(int socket, std::span<const std::string> arguments) {
  try {
    Tick(socket, arguments[0]);
    return 0;
  } catch (const std::exception& error) {
    Send(socket, std::string("the ticker: ") + error.what());
    return 1;
  }
}

}  // namespace tenure::trial
