#include "tests/gpu/trial/kernels.h"

#include <algorithm>
#include <dlfcn.h>
#include <stdexcept>

#include "tests/gpu/trial/findings.h"

namespace tenure::trial {
namespace {

constexpr unsigned kThreads = 256;
// Each thread of a sum takes about this many bytes, up to the most blocks.
constexpr uint64_t kBytesPerThread = 64;
constexpr uint64_t kMostBlocks = 1024;

// For Turing and everything after it; the driver makes machine code of it.
constexpr char kPtx[] = R"(
.version 7.0
.target sm_75
.address_size 64

// sum += (i + 1) * byte i. Thread t of n takes the bytes t, t + n, ...
.visible .entry sum_bytes(.param .u64 from, .param .u64 size, .param .u64 sum)
{
  .reg .pred %done;
  .reg .b32 %block, %threads, %thread, %blocks;
  .reg .b64 %from, %size, %sum, %i, %step, %at, %byte, %weight, %total;

  ld.param.u64 %from, [from];
  ld.param.u64 %size, [size];
  ld.param.u64 %sum, [sum];
  cvta.to.global.u64 %from, %from;
  cvta.to.global.u64 %sum, %sum;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  cvt.u64.u32 %i, %thread;
  mad.wide.u32 %i, %block, %threads, %i;
  mul.wide.u32 %step, %blocks, %threads;
  mov.u64 %total, 0;
NEXT:
  setp.ge.u64 %done, %i, %size;
  @%done bra END;
  add.u64 %at, %from, %i;
  ld.global.u8 %byte, [%at];
  add.u64 %weight, %i, 1;
  mad.lo.u64 %total, %byte, %weight, %total;
  add.u64 %i, %i, %step;
  bra NEXT;
END:
  red.global.add.u64 [%sum], %total;
  ret;
}

// Says 1 to `started`, then reads bytes in a circle until `span` nanoseconds have passed.
.visible .entry read_for(.param .u64 from, .param .u64 size, .param .u64 sum, .param .u64 span,
                         .param .u64 started)
{
  .reg .pred %more;
  .reg .b32 %block, %threads, %thread, %blocks;
  .reg .b64 %from, %size, %sum, %span, %started, %i, %step, %at, %byte, %total, %one, %begin, %now;

  ld.param.u64 %from, [from];
  ld.param.u64 %size, [size];
  ld.param.u64 %sum, [sum];
  ld.param.u64 %span, [span];
  ld.param.u64 %started, [started];
  cvta.to.global.u64 %from, %from;
  cvta.to.global.u64 %sum, %sum;
  cvta.to.global.u64 %started, %started;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  cvt.u64.u32 %i, %thread;
  mad.wide.u32 %i, %block, %threads, %i;
  mul.wide.u32 %step, %blocks, %threads;
  mov.u64 %total, 0;
  mov.u64 %one, 1;
  mov.u64 %begin, %globaltimer;
  st.volatile.global.u64 [%started], %one;
  membar.sys;
NEXT:
  rem.u64 %i, %i, %size;
  add.u64 %at, %from, %i;
  ld.volatile.global.u8 %byte, [%at];
  add.u64 %total, %total, %byte;
  add.u64 %i, %i, %step;
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %more, %now, %span;
  @%more bra NEXT;
  red.global.add.u64 [%sum], %total;
  ret;
}

// Says 1 to `started`, then writes bytes in a circle until `span` nanoseconds have passed.
.visible .entry write_for(.param .u64 to, .param .u64 size, .param .u64 span, .param .u64 started)
{
  .reg .pred %more;
  .reg .b32 %block, %threads, %thread, %blocks;
  .reg .b64 %to, %size, %span, %started, %i, %step, %at, %one, %begin, %now;

  ld.param.u64 %to, [to];
  ld.param.u64 %size, [size];
  ld.param.u64 %span, [span];
  ld.param.u64 %started, [started];
  cvta.to.global.u64 %to, %to;
  cvta.to.global.u64 %started, %started;
  mov.u32 %block, %ctaid.x;
  mov.u32 %threads, %ntid.x;
  mov.u32 %thread, %tid.x;
  mov.u32 %blocks, %nctaid.x;
  cvt.u64.u32 %i, %thread;
  mad.wide.u32 %i, %block, %threads, %i;
  mul.wide.u32 %step, %blocks, %threads;
  mov.u64 %one, 1;
  mov.u64 %begin, %globaltimer;
  st.volatile.global.u64 [%started], %one;
  membar.sys;
NEXT:
  rem.u64 %i, %i, %size;
  add.u64 %at, %to, %i;
  st.volatile.global.u8 [%at], %i;
  add.u64 %i, %i, %step;
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %begin;
  setp.lt.u64 %more, %now, %span;
  @%more bra NEXT;
  ret;
}
)";

}  // namespace

uint64_t SumOf(std::span<const std::byte> bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += (i + 1) * static_cast<uint64_t>(bytes[i]);
  return sum;
}

Kernels::Kernels(const Gpu& gpu) : gpu_(gpu), cuda_(Find()) {
  if (const CUresult loaded = cuda_.cuModuleLoadData(&module_, kPtx); loaded != CUDA_SUCCESS) {
    throw CannotRun("the driver runs no kernels: cuModuleLoadData: " + gpu.NameOf(loaded));
  }
  sum_bytes_ = Function("sum_bytes");
  read_for_ = Function("read_for");
  write_for_ = Function("write_for");
}

Kernels::~Kernels() { cuda_.cuModuleUnload(module_); }

Kernels::Calls Kernels::Find() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) throw CannotRun(dlerror());
  Calls calls;
  // The header renames some entry points to a later version, and so does this.
#define TENURE_NAME(call) #call
#define TENURE_FIND(call)                                                                       \
  calls.call = reinterpret_cast<decltype(calls.call)>(dlsym(library, TENURE_NAME(call)));       \
  if (calls.call == nullptr) {                                                                  \
    throw CannotRun(std::string("the driver runs no kernels: it has no ") + TENURE_NAME(call)); \
  }
  TENURE_KERNEL_CALLS(TENURE_FIND)
#undef TENURE_FIND
#undef TENURE_NAME
  return calls;
}

CUfunction Kernels::Function(const char* name) const {
  CUfunction function = nullptr;
  gpu_.Must("cuModuleGetFunction", cuda_.cuModuleGetFunction(&function, module_, name));
  return function;
}

void Kernels::SumBytes(const SummedRange& range, CUstream stream) const {
  CUdeviceptr from = range.from;
  uint64_t size = range.size.count();
  CUdeviceptr sum = range.sum;
  void* parameters[] = {&from, &size, &sum};
  const uint64_t blocks = size / (kThreads * kBytesPerThread) + 1;
  Run(sum_bytes_, static_cast<unsigned>(std::min(blocks, kMostBlocks)), parameters, stream);
}

void Kernels::ReadFor(const SummedRange& range, Duration span, CUdeviceptr started,
                      CUstream stream) const {
  CUdeviceptr from = range.from;
  uint64_t size = range.size.count();
  CUdeviceptr sum = range.sum;
  auto nanoseconds = static_cast<uint64_t>(span.count());
  void* parameters[] = {&from, &size, &sum, &nanoseconds, &started};
  Run(read_for_, 8, parameters, stream);
}

void Kernels::WriteFor(CUdeviceptr to, Bytes size, Duration span, CUdeviceptr started,
                       CUstream stream) const {
  uint64_t bytes = size.count();
  auto nanoseconds = static_cast<uint64_t>(span.count());
  void* parameters[] = {&to, &bytes, &nanoseconds, &started};
  Run(write_for_, 8, parameters, stream);
}

void Kernels::Run(CUfunction function, unsigned blocks, std::span<void*> parameters,
                  CUstream stream) const {
  gpu_.Must("cuLaunchKernel", cuda_.cuLaunchKernel(function, blocks, 1, 1, kThreads, 1, 1, 0,
                                                   stream, parameters.data(), nullptr));
}

CUgraphExec Kernels::Capture(CUstream stream, const std::function<void()>& work) const {
  gpu_.Must("cuStreamBeginCapture",
            cuda_.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  work();
  CUgraph graph = nullptr;
  gpu_.Must("cuStreamEndCapture", cuda_.cuStreamEndCapture(stream, &graph));
  CUgraphExec executable = nullptr;
  const CUresult made = cuda_.cuGraphInstantiateWithFlags(&executable, graph, 0);
  gpu_.Must("cuGraphDestroy", cuda_.cuGraphDestroy(graph));
  gpu_.Must("cuGraphInstantiateWithFlags", made);
  return executable;
}

void Kernels::Launch(CUgraphExec graph, CUstream stream) const {
  gpu_.Must("cuGraphLaunch", cuda_.cuGraphLaunch(graph, stream));
}

void Kernels::Destroy(CUgraphExec graph) const {
  gpu_.Must("cuGraphExecDestroy", cuda_.cuGraphExecDestroy(graph));
}

}  // namespace tenure::trial
