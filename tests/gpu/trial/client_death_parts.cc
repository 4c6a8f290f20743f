// A client is killed while its kernel reads a region. Until it has exited nobody else gets the
// memory; then the next model takes it in place. Once as usual, and once with the clients under
// MPS.

#include <optional>
#include <span>
#include <stdlib.h>
#include <sys/stat.h>
#include <vector>

#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/served_models.h"

namespace tenure::trial {
namespace {

using bench::Milliseconds;
using client::LoadResult;
using client::Reuse;

// How long the kernel would run: the reader is killed long before.
constexpr const char* kReadingSeconds = "8";
constexpr auto kLook = std::chrono::milliseconds(5);
constexpr auto kPatience = std::chrono::seconds(20);
constexpr auto kQuitPatience = std::chrono::seconds(3);

// Tries to load B until it is there. Every refusal names the room.
LoadResult LoadOnceFree(const ServedModels& models, const Child& reader, Findings& findings) {
  const SteadyClock clock;
  const Instant begin = clock.Now();
  bool exited = false;
  while (true) {
    absl::StatusOr<LoadResult> loaded = models.TryLoad(models.b());
    const bool ended = reader.Ended(loaded.ok() ? Duration::zero() : Duration(kLook));
    if (ended && !exited) {
      findings.Figure("killed_until_exited_ms", Milliseconds(clock.Now() - begin));
    }
    exited = ended;
    if (loaded.ok()) {
      findings.Check("the memory went to nobody before the reader had exited", exited);
      findings.Figure("killed_until_loaded_ms", Milliseconds(clock.Now() - begin));
      return *std::move(loaded);
    }
    if (!absl::IsResourceExhausted(loaded.status()) || clock.Now() - begin > kPatience) {
      throw std::runtime_error(loaded.status().ToString());
    }
  }
}

// The first tensor's sum, as the host and as a kernel has it.
uint64_t HostSum(const WeightLease& lease) {
  const client::Tensor tensor = lease.tensor(0);
  std::vector<std::byte> bytes(tensor.bytes.size());
  const absl::Status read = lease.CopyToHost(tensor.offset, bytes);
  if (!read.ok()) throw std::runtime_error(read.ToString());
  return SumOf(bytes);
}

uint64_t KernelSum(const Gpu& gpu, const Kernels& kernels, const WeightLease& lease) {
  const client::Tensor tensor = lease.tensor(0);
  const Stream stream(gpu);
  const CUdeviceptr sum = gpu.Alloc(Bytes(sizeof(uint64_t)));
  gpu.Must("cuMemsetD8Async", gpu.cuda().MemsetD8Async(sum, 0, sizeof(uint64_t), stream.get()));
  kernels.SumBytes({.from = reinterpret_cast<CUdeviceptr>(tensor.bytes.data()),
                    .size = Bytes(tensor.bytes.size()),
                    .sum = sum},
                   stream.get());
  stream.Wait();
  uint64_t result = 0;
  gpu.CopyOut(std::as_writable_bytes(std::span(&result, 1)), sum);
  gpu.FreeAlloc(sum);
  return result;
}

void KillAReader(const Setting& setting, const ServedModels& models) {
  const Gpu gpu;
  const Kernels kernels(gpu);
  LoadResult kept = models.Load(models.a(), Reuse::kFresh);
  Child reader("reader", {models.daemon().directory(), models.a().name(), kReadingSeconds},
               setting.temp);
  Receive(reader.socket(), "reading");
  models.GiveUp(kept, models.a());
  const absl::Status refused = models.TryLoad(models.b()).status();
  setting.findings.Check("no other model takes what a living client reads",
                         absl::IsResourceExhausted(refused));

  reader.Kill();
  LoadResult b = LoadOnceFree(models, reader, setting.findings);
  setting.findings.Check("the next model took the region in place", b.reuse == Reuse::kAdopted);
  models.b().Check(*b.lease);
  setting.findings.Check("its bytes are right", true);

  setting.findings.Check("another client's kernels still run",
                         KernelSum(gpu, kernels, *b.lease) == HostSum(*b.lease));
  models.GiveUp(b, models.b());
}

// NVIDIA's control daemon with folders of its own, for this process and those that it starts from
// here on, if they have not begun to use CUDA. Thread-compatible.
class Mps {
 public:
  // CannotRun where there is none.
  explicit Mps(const std::string& temp)
      : pipes_(temp + "/pipes"), logs_(temp + "/logs"), quit_output_(temp + "/quit") {
    mkdir(pipes_.c_str(), 0700);
    mkdir(logs_.c_str(), 0700);
    setenv("CUDA_MPS_PIPE_DIRECTORY", pipes_.c_str(), 1);
    setenv("CUDA_MPS_LOG_DIRECTORY", logs_.c_str(), 1);
    control_.emplace(std::vector<std::string>{"/usr/bin/env", "nvidia-cuda-mps-control", "-f"},
                     temp + "/mps");
    end_.emplace(control_->pid());
    struct stat pipe {};
    while (stat((pipes_ + "/control").c_str(), &pipe) != 0) {
      if (end_->Happened(kLook)) {
        throw CannotRun("nvidia-cuda-mps-control cannot be started: " + control_->Err());
      }
    }
  }
  // Asks it to end, and ends it if it waits for clients.
  ~Mps() {
    const Program quit({"/bin/sh", "-c", "echo quit | nvidia-cuda-mps-control"}, quit_output_);
    end_->Happened(kQuitPatience);
  }
  Mps(const Mps&) = delete;
  Mps& operator=(const Mps&) = delete;

 private:
  const std::string pipes_;
  const std::string logs_;
  const std::string quit_output_;
  std::optional<Program> control_;
  std::optional<ProcessEnd> end_;
};

}  // namespace

void RunClientDeath(const Setting& setting) {
  Kernels::RequireCalls();
  const ServedModels models({.payload = setting.model, .capacity = setting.model + kMostPadding});
  KillAReader(setting, models);
}

void RunClientDeathUnderMps(const Setting& setting) {
  Kernels::RequireCalls();
  // The daemon has begun before, and does without.
  const ServedModels models({.payload = setting.model, .capacity = setting.model + kMostPadding});
  const Mps mps(setting.temp);
  if (!Gpu().Has(CU_DEVICE_ATTRIBUTE_MPS_ENABLED)) {
    throw CannotRun("the driver does not say that clients run under MPS");
  }
  KillAReader(setting, models);
}

}  // namespace tenure::trial
