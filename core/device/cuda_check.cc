#include <absl/strings/str_cat.h>
#include <cstdlib>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/device/cuda_device.h"
#include "core/device/cuda_driver.h"
#include "core/device/cuda_gpu.h"

namespace tenure {
namespace {

using Verdict = CudaFinding::Verdict;

// Any CUDA process joins an MPS server that it finds, this one too.
CudaFinding CheckMps() {
  const char* const configured = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  const std::string pipes = configured == nullptr ? "/tmp/nvidia-mps" : configured;
  struct stat found {};
  if (::stat((pipes + "/control").c_str(), &found) != 0) {
    return {Verdict::kGood, "mps", "no server in " + pipes};
  }
  return {Verdict::kNote, "mps",
          "a server may run in " + pipes + ": clients under MPS are unproven"};
}

// Copies travel through pinned memory, which some drivers count.
CudaFinding CheckLockedMemory() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
    return {Verdict::kGood, "memlock", "unlimited"};
  }
  const Bytes bytes(limit.rlim_cur);
  const bool enough = bytes >= MiB(64);
  return {enough ? Verdict::kGood : Verdict::kNote, "memlock",
          FormatBytes(bytes) + (enough ? "" : ": pinned buffers may need more")};
}

void CheckGpu(const CudaProperties& gpu, std::vector<CudaFinding>& findings) {
  const auto has = [&](const char* what, bool offered, const std::string& answer) {
    findings.push_back({offered ? Verdict::kGood : Verdict::kBad,
                        absl::StrCat(gpu.uuid, ": ", what), offered ? answer : "not supported"});
  };
  const bool mig = gpu.uuid.compare(0, 4, "MIG-") == 0;
  findings.push_back(
      {Verdict::kGood, gpu.uuid, absl::StrCat(gpu.name, ", ", FormatBytes(gpu.total))});
  findings.push_back({Verdict::kGood, absl::StrCat(gpu.uuid, ": mig"),
                      mig ? "an instance: its memory is the instance's own" : "a whole GPU"});
  has("virtual memory", gpu.virtual_memory, "supported");
  has("posix fds", gpu.posix_fds, absl::StrCat("supported, granule ", FormatBytes(gpu.granule)));
}

}  // namespace

std::vector<CudaFinding> CheckCuda() {
  std::vector<CudaFinding> findings;
  const StatusOr<CudaDriver> driver = OpenCudaDriver();
  if (driver.ok()) {
    findings.push_back(
        {Verdict::kGood, "driver", absl::StrCat("CUDA ", CudaVersionText(driver->version))});
    const StatusOr<std::vector<CudaProperties>> gpus = ListCudaGpus(*driver);
    if (!gpus.ok()) {
      findings.push_back({Verdict::kBad, "gpus", std::string(gpus.status().message())});
    } else {
      findings.push_back(
          {gpus->empty() ? Verdict::kBad : Verdict::kGood, "gpus", absl::StrCat(gpus->size())});
      for (const CudaProperties& gpu : *gpus) CheckGpu(gpu, findings);
    }
  } else {
    findings.push_back({Verdict::kBad, "driver", std::string(driver.status().message())});
  }
  findings.push_back(CheckMps());
  findings.push_back(CheckLockedMemory());
  return findings;
}

}  // namespace tenure
