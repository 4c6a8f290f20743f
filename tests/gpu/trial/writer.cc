// Takes a buffer through the daemon, starts a kernel that writes it for as long as told, says
// "writing" when the kernel runs, and waits for its end. What it cannot do it says instead.

#include <atomic>
#include <exception>

#include "tenure/client.h"
#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {
namespace {

void Write(int socket, const std::string& directory, uint64_t bytes, std::chrono::seconds span) {
  const Gpu gpu;
  const Kernels kernels(gpu);
  const auto client = Client::Connect({.directory = directory, .program = "writer"});
  if (!client.ok()) throw std::runtime_error(client.status().ToString());
  const auto pool = client->OpenPool();
  if (!pool.ok()) throw std::runtime_error(pool.status().ToString());
  const auto buffer = pool->Acquire(bytes);
  if (!buffer.ok()) throw std::runtime_error(buffer.status().ToString());

  const Stream stream(gpu);
  const Pinned started(gpu, Bytes(sizeof(uint64_t)));
  auto* const flag = reinterpret_cast<uint64_t*>(started.view().data());
  *flag = 0;
  kernels.WriteFor(reinterpret_cast<CUdeviceptr>(buffer->data()), Bytes(bytes), span, started.at(),
                   stream.get());
  while (std::atomic_ref(*flag).load() == 0) {
    const CUresult running = gpu.cuda().StreamQuery(stream.get());
    if (running != CUDA_ERROR_NOT_READY) gpu.Must("cuStreamQuery", running);
  }
  Send(socket, "writing");
  stream.Wait();
}

}  // namespace

int RunWriter(int socket, std::span<const std::string> arguments) {
  try {
    Write(socket, arguments[0], std::stoull(arguments[1]),
          std::chrono::seconds(std::stoi(arguments[2])));
    return 0;
  } catch (const std::exception& error) {
    Send(socket, std::string("the writer: ") + error.what());
    return 1;
  }
}

}  // namespace tenure::trial
