// What memory that crosses processes does when one of them ends, and what it costs in fds.

#include <filesystem>
#include <sys/resource.h>
#include <vector>

#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/gpu.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {
namespace {

constexpr Bytes kShared = MiB(64);
constexpr uint64_t kSeed = 7;
constexpr int kMany = 1000;

std::vector<std::string> ExporterOf(Bytes size, uint64_t seed, int count) {
  return {std::to_string(size.count()), std::to_string(seed), std::to_string(count)};
}

double OpenFds() {
  // Counts the fd that counts, too.
  return static_cast<double>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                                           std::filesystem::directory_iterator()));
}

// As many fds as the system lets this process have.
void RaiseFdLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

void RunExporterDeath(const Setting& setting) {
  const Gpu gpu;
  Child exporter("exporter", ExporterOf(kShared, kSeed, 1), setting.temp);
  Message memory = Receive(exporter.socket(), "memory");
  const CUmemGenericAllocationHandle handle = gpu.Import(memory.fd.get());
  memory.fd.Reset();
  const Mapped mapped(gpu, handle, kShared, CU_MEM_ACCESS_FLAGS_PROT_READ);
  gpu.Release(handle);
  setting.findings.Check("an importer reads the exporter's bytes",
                         gpu.Shows(mapped.at(), kShared, kSeed));
  exporter.Kill();
  exporter.Wait();
  setting.findings.Check("it reads them after the exporter was killed",
                         gpu.Shows(mapped.at(), kShared, kSeed));
}

void RunLoneFd(const Setting& setting) {
  const Gpu gpu;
  Child exporter("exporter", ExporterOf(kShared, kSeed, 1), setting.temp);
  Message memory = Receive(exporter.socket(), "memory");
  Send(exporter.socket(), "next");
  setting.findings.Check("the exporter released its memory and ended", exporter.Wait() == 0);

  const Bytes pinned = gpu.Free();
  {
    const CUmemGenericAllocationHandle handle = gpu.Import(memory.fd.get());
    const Mapped mapped(gpu, handle, kShared, CU_MEM_ACCESS_FLAGS_PROT_READ);
    gpu.Release(handle);
    setting.findings.Check("what a lone fd kept is imported and read",
                           gpu.Shows(mapped.at(), kShared, kSeed));
  }
  setting.findings.Check("the fd keeps the memory when the import is gone",
                         gpu.Free() < pinned + kShared);
  memory.fd.Reset();
  const Bytes back = SaturatingSub(gpu.Free(), pinned);
  setting.findings.Figure("freed_by_closing_the_fd_mib", static_cast<double>(back / MiB(1)));
  setting.findings.Check("closing the fd gives the memory back", back >= kShared);
}

void RunFdCount(const Setting& setting) {
  RaiseFdLimit();
  const Gpu gpu;
  const Bytes free = gpu.Free();
  // The first calls open what the driver keeps for itself.
  gpu.Release([&] {
    const CUmemGenericAllocationHandle first = gpu.Create(gpu.granule());
    gpu.Export(first);
    return first;
  }());
  const double before = OpenFds();

  std::vector<CUmemGenericAllocationHandle> handles;
  handles.reserve(kMany);
  for (int i = 0; i < kMany; ++i) handles.push_back(gpu.Create(gpu.granule()));
  const double created = OpenFds();
  std::vector<UniqueFd> fds;
  fds.reserve(kMany);
  for (const CUmemGenericAllocationHandle handle : handles) fds.push_back(gpu.Export(handle));
  const double exported = OpenFds();
  fds.clear();
  const double closed = OpenFds();
  for (const CUmemGenericAllocationHandle handle : handles) gpu.Release(handle);
  const double released = OpenFds();

  setting.findings.Figure("fds_per_create", (created - before) / kMany);
  setting.findings.Figure("fds_per_export", (exported - created) / kMany);
  setting.findings.Check("1,000 exports take one fd each", exported - created == kMany);
  setting.findings.Check("closing the exports gives their fds back", closed == created);
  setting.findings.Check("no fd is left after the releases", released == before);
  setting.findings.Check("no memory is left after the releases",
                         gpu.Free() + gpu.granule() >= free);
}

}  // namespace tenure::trial
