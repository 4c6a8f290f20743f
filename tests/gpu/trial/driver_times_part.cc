// What the driver's calls for one Segment cost, by size, beside cuMemAlloc and cuMemFree. What is
// imported comes from another process, as in use.

#include "tests/bench/baselines.h"
#include "tests/gpu/trial/child.h"
#include "tests/gpu/trial/gpu.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {
namespace {

using bench::Microseconds;
using bench::Samples;
using bench::TimeOf;

constexpr int kRounds = 15;

struct Times {
  Samples create, map, set_access, unmap, export_fd, release, import, import_map, import_set_access;
  Samples alloc, free;  // the baseline
};

void MeasureOwn(const Gpu& gpu, Bytes size, Times& times) {
  CUmemGenericAllocationHandle handle = 0;
  times.create.Add(Microseconds(TimeOf([&] { handle = gpu.Create(size); })));
  const CUdeviceptr at = gpu.Reserve(size);
  times.map.Add(Microseconds(TimeOf([&] { gpu.Map(at, size, handle); })));
  times.set_access.Add(
      Microseconds(TimeOf([&] { gpu.SetAccess(at, size, CU_MEM_ACCESS_FLAGS_PROT_READWRITE); })));
  UniqueFd fd;
  times.export_fd.Add(Microseconds(TimeOf([&] { fd = gpu.Export(handle); })));
  fd.Reset();
  times.unmap.Add(Microseconds(TimeOf([&] { gpu.Unmap(at, size); })));
  times.release.Add(Microseconds(TimeOf([&] { gpu.Release(handle); })));
  gpu.FreeAddresses(at, size);

  CUdeviceptr plain = 0;
  times.alloc.Add(Microseconds(TimeOf([&] { plain = gpu.Alloc(size); })));
  times.free.Add(Microseconds(TimeOf([&] { gpu.FreeAlloc(plain); })));
}

void MeasureImport(const Gpu& gpu, Bytes size, int fd, Times& times) {
  CUmemGenericAllocationHandle handle = 0;
  times.import.Add(Microseconds(TimeOf([&] { handle = gpu.Import(fd); })));
  const CUdeviceptr at = gpu.Reserve(size);
  times.import_map.Add(Microseconds(TimeOf([&] { gpu.Map(at, size, handle); })));
  times.import_set_access.Add(
      Microseconds(TimeOf([&] { gpu.SetAccess(at, size, CU_MEM_ACCESS_FLAGS_PROT_READ); })));
  gpu.Unmap(at, size);
  gpu.Release(handle);
  gpu.FreeAddresses(at, size);
}

void Measure(const Gpu& gpu, Bytes size, const std::string& name, const Setting& setting) {
  Times times;
  for (int i = 0; i < kRounds; ++i) MeasureOwn(gpu, size, times);
  Child exporter("exporter", {std::to_string(size.count()), /*seed=*/"0", std::to_string(kRounds)},
                 setting.temp);
  for (int i = 0; i < kRounds; ++i) {
    const Message memory = Receive(exporter.socket(), "memory");
    MeasureImport(gpu, size, memory.fd.get(), times);
    Send(exporter.socket(), "next");
  }
  setting.findings.Check(name + " are made, imported and given back", exporter.Wait() == 0);
  const auto tell = [&](const char* what, const Samples& samples) {
    setting.findings.Figure(what + ("_" + name + "_us"), samples);
  };
  tell("create", times.create);
  tell("map", times.map);
  tell("set_access", times.set_access);
  tell("export", times.export_fd);
  tell("unmap", times.unmap);
  tell("release", times.release);
  tell("import", times.import);
  tell("import_map", times.import_map);
  tell("import_set_access", times.import_set_access);
  tell("cumemalloc", times.alloc);
  tell("cumemfree", times.free);
}

}  // namespace

void RunDriverTimes(const Setting& setting) {
  const Gpu gpu;
  Measure(gpu, MiB(2), "2MiB", setting);
  Measure(gpu, MiB(64), "64MiB", setting);
  Measure(gpu, GiB(1), "1GiB", setting);
}

}  // namespace tenure::trial
