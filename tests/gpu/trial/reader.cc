// Leases a model through the daemon, starts a kernel that reads its region for as long as told,
// says "reading" when the kernel runs, and waits for its end. What it cannot do it says instead.

#include <atomic>
#include <cstring>
#include <exception>

#include "tenure/client.h"
#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {
namespace {

void Read(int socket, const std::string& directory, const std::string& model,
          std::chrono::seconds span) {
  const Gpu gpu;
  const Kernels kernels(gpu);
  const auto client = Client::Connect({.directory = directory, .program = "reader"});
  if (!client.ok()) throw std::runtime_error(client.status().ToString());
  const auto lease = client->Acquire({.name = model});
  if (!lease.ok()) throw std::runtime_error(lease.status().ToString());

  const Stream stream(gpu);
  const Pinned started(gpu, Bytes(sizeof(uint64_t)));
  auto* const flag = reinterpret_cast<uint64_t*>(started.view().data());
  *flag = 0;
  const SummedRange range{.from = reinterpret_cast<CUdeviceptr>(lease->base()),
                          .size = Bytes(lease->size_bytes()),
                          .sum = gpu.Alloc(Bytes(sizeof(uint64_t)))};
  kernels.ReadFor(range, span, started.at(), stream.get());
  while (std::atomic_ref(*flag).load() == 0) {
    const CUresult running = gpu.cuda().StreamQuery(stream.get());
    if (running != CUDA_ERROR_NOT_READY) gpu.Must("cuStreamQuery", running);
  }
  Send(socket, "reading");
  stream.Wait();
}

}  // namespace

int RunReader(int socket, std::span<const std::string> arguments) {
  try {
    Read(socket, arguments[0], arguments[1], std::chrono::seconds(std::stoi(arguments[2])));
    return 0;
  } catch (const std::exception& error) {
    Send(socket, std::string("the reader: ") + error.what());
    return 1;
  }
}

}  // namespace tenure::trial
