// Holds CUDA's driver against what NVIDIA documents, on a real GPU or over the emulated driver: one
// line for each row and a total. Ends with 1 if a row differs, with 2 if no device can be used.
//
//   cuda-conformance [--device ORDINAL] [--json FILE]
//
// It takes less than 64 MiB of the device and leaves nothing behind. The rows that end a context
// run last, in a process of their own: no other process's context is touched, except under MPS.

#include <errno.h>
#include <fstream>
#include <iostream>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "tests/gpu/conformance/device_memory.h"
#include "tests/gpu/conformance/table.h"

namespace tenure::conformance {

bool Outcome::as_documented() const {
  return std::find(row.expected.begin(), row.expected.end(), actual) != row.expected.end();
}

namespace {

constexpr int kDiffers = 1;
constexpr int kNoDevice = 2;

std::string NameOf(const Scene& scene, int result) {
  if (result == kWrongValue) return "a wrong value";
  const char* name = nullptr;
  scene.cuda.GetErrorName(static_cast<CUresult>(result), &name);
  return name == nullptr ? std::to_string(result) : name;
}

void Tell(const Scene& scene, const Outcome& outcome) {
  std::cout << (outcome.as_documented() ? "ok    " : "DIFFERS  ") << outcome.row.name;
  if (!outcome.as_documented()) {
    std::cout << ": expected";
    for (const int result : outcome.row.expected) std::cout << " " << NameOf(scene, result);
    std::cout << ", got " << NameOf(scene, outcome.actual);
  }
  std::cout << std::endl;
}

void Run(Scene& scene, const Table& table, std::vector<Outcome>& outcomes) {
  for (const Row& row : table) {
    outcomes.push_back({row, row.run(scene)});
    Tell(scene, outcomes.back());
  }
}

// Finds out what the rows need; the result of the first call that fails.
int Prepare(Scene& scene) {
  const CUmemAllocationProp properties = Properties(scene);
  return FirstFailure({scene.cuda.DeviceGet(&scene.device, scene.device),
                       scene.cuda.MemGetAllocationGranularity(&scene.granularity, &properties,
                                                              CU_MEM_ALLOC_GRANULARITY_MINIMUM)});
}

int EnterContext(Scene& scene) {
  const int retained = scene.cuda.DevicePrimaryCtxRetain(&scene.context, scene.device);
  return retained != CUDA_SUCCESS ? retained : scene.cuda.CtxSetCurrent(scene.context);
}

// The process that the rows that end a context run in: writes each result to `fd`.
int RunContextsEnd(Scene& scene, int fd) {
  const int ready = FirstFailure({scene.cuda.Init(0), Prepare(scene), EnterContext(scene)});
  if (ready != CUDA_SUCCESS) return kNoDevice;
  for (const Row& row : ContextsEnd()) {
    const int actual = row.run(scene);
    if (write(fd, &actual, sizeof(actual)) != sizeof(actual)) return kNoDevice;
  }
  return 0;
}

// Starts that process and takes its results.
void RunContextsEndElsewhere(const Scene& scene, std::vector<Outcome>& outcomes) {
  int ends[2];
  if (pipe(ends) != 0) return;
  const std::string device = std::to_string(scene.device);
  const std::string fd = std::to_string(ends[1]);
  const char* const arguments[] = {"/proc/self/exe",      "--device", device.c_str(),
                                   "--contexts-end-into", fd.c_str(), nullptr};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    execv(arguments[0], const_cast<char* const*>(arguments));
    _exit(kNoDevice);
  }
  close(ends[1]);
  for (const Row& row : ContextsEnd()) {
    int actual = kWrongValue;
    if (read(ends[0], &actual, sizeof(actual)) != sizeof(actual)) actual = kWrongValue;
    outcomes.push_back({row, actual});
    Tell(scene, outcomes.back());
  }
  close(ends[0]);
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// What the rows were held against.
nlohmann::json DescribeDevice(const Scene& scene) {
  int version = 0;
  char name[256] = {};
  scene.cuda.DriverGetVersion(&version);
  scene.cuda.DeviceGetName(name, sizeof(name), scene.device);
  return {{"driver_version", version}, {"device", name}};
}

void WriteJson(const std::string& path, const Scene& scene, const std::vector<Outcome>& outcomes) {
  nlohmann::json report = DescribeDevice(scene);
  report["rows"] = nlohmann::json::array();
  for (const Outcome& outcome : outcomes) {
    std::vector<std::string> expected;
    for (const int result : outcome.row.expected) expected.push_back(NameOf(scene, result));
    report["rows"].push_back({{"name", outcome.row.name},
                              {"expected", expected},
                              {"actual", NameOf(scene, outcome.actual)},
                              {"as_documented", outcome.as_documented()}});
  }
  std::ofstream(path) << report.dump(1) << "\n";
}

int RunAll(Scene& scene, const std::string& json) {
  std::vector<Outcome> outcomes;
  Run(scene, BeforeInitialisation(), outcomes);
  int ready = Prepare(scene);
  if (ready == CUDA_SUCCESS) {
    Run(scene, WithoutContext(), outcomes);
    ready = EnterContext(scene);
  }
  if (ready != CUDA_SUCCESS) {
    std::cerr << "no device to run on: " << NameOf(scene, ready) << std::endl;
    return kNoDevice;
  }
  for (const Table& table :
       {ContextRows(), VirtualMemoryRows(), SharingRows(), MemoryRows(), StreamRows()}) {
    Run(scene, table, outcomes);
  }
  RunContextsEndElsewhere(scene, outcomes);
  const Row unharmed{"The end of another process's context harms nobody",
                     {CUDA_SUCCESS},
                     [](Scene& mine) -> int { return Granule(mine).ready(); }};
  Run(scene, {unharmed}, outcomes);
  scene.cuda.CtxSetCurrent(nullptr);
  scene.cuda.DevicePrimaryCtxRelease(scene.device);

  const auto differing = std::count_if(outcomes.begin(), outcomes.end(),
                                       [](const Outcome& each) { return !each.as_documented(); });
  std::cout << outcomes.size() << " rows, " << differing << " differ" << std::endl;
  if (!json.empty()) WriteJson(json, scene, outcomes);
  return differing == 0 ? 0 : kDiffers;
}

}  // namespace
}  // namespace tenure::conformance

int main(int argc, char** argv) {
  using tenure::conformance::Scene;
  Scene scene;
  std::string json;
  int contexts_end_into = -1;
  CLI::App app("Holds CUDA's driver against what NVIDIA documents");
  app.add_option("--device", scene.device, "The device's ordinal");
  app.add_option("--json", json, "Write the rows to this file");
  app.add_option("--contexts-end-into", contexts_end_into)->group("");
  CLI11_PARSE(app, argc, argv);
  const std::string missing = LoadDriver(scene.cuda);
  if (!missing.empty()) {
    std::cerr << missing << std::endl;
    return tenure::conformance::kNoDevice;
  }
  if (contexts_end_into >= 0) {
    return tenure::conformance::RunContextsEnd(scene, contexts_end_into);
  }
  return tenure::conformance::RunAll(scene, json);
}
