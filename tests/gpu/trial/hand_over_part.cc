// A client captures a CUDA graph once, over the addresses of model A's tensors. Then the memory is
// handed to model B in place, and the same graph computes B's results.

#include <algorithm>
#include <cstring>
#include <optional>

#include "tests/gpu/trial/kernels.h"
#include "tests/gpu/trial/served_models.h"

namespace tenure::trial {
namespace {

using bench::BenchModel;
using client::LoadResult;
using client::Reuse;

// What the graph must compute of a model: a sum for each tensor, in the order of the file.
std::vector<uint64_t> SumsOf(const BenchModel& model) {
  std::vector<std::byte> payload(model.payload().count());
  model.ReadPayload(payload);
  std::vector<uint64_t> sums;
  std::span<const std::byte> rest = payload;
  for (const TensorSpec& spec : BenchModel::Specs(model.payload())) {
    const size_t size = TensorBytes(spec)->count();
    sums.push_back(SumOf(rest.first(size)));
    rest = rest.subspan(size);
  }
  return sums;
}

// The graph: clears the sums, computes one for each tensor, and brings them to the host.
class SumGraph {
 public:
  SumGraph(const Gpu& gpu, const Kernels& kernels, const BenchModel& model,
           const WeightLease& lease)
      : gpu_(gpu),
        kernels_(kernels),
        stream_(gpu),
        size_(sizeof(uint64_t) * lease.tensor_count()),
        sums_(gpu.Alloc(size_)),
        result_(gpu, size_) {
    for (const TensorSpec& spec : BenchModel::Specs(model.payload())) {
      const std::optional<client::Tensor> tensor = lease.Find(spec.name);
      if (!tensor) throw std::runtime_error("the lease has no " + spec.name);
      tensors_.push_back({.from = reinterpret_cast<CUdeviceptr>(tensor->bytes.data()),
                          .size = Bytes(tensor->bytes.size()),
                          .sum = sums_ + tensors_.size() * sizeof(uint64_t)});
    }
    // The first launch loads the kernel, which a capture forbids.
    Enqueue();
    stream_.Wait();
    graph_ = kernels.Capture(stream_.get(), [this] { Enqueue(); });
  }
  ~SumGraph() {
    kernels_.Destroy(graph_);
    gpu_.FreeAlloc(sums_);
  }
  SumGraph(const SumGraph&) = delete;
  SumGraph& operator=(const SumGraph&) = delete;

  std::vector<uint64_t> Replay() const {
    std::ranges::fill(result_.view(), std::byte{0xff});
    kernels_.Launch(graph_, stream_.get());
    stream_.Wait();
    std::vector<uint64_t> sums(tensors_.size());
    memcpy(sums.data(), result_.view().data(), size_.count());
    return sums;
  }

 private:
  void Enqueue() const {
    gpu_.Must("cuMemsetD8Async", gpu_.cuda().MemsetD8Async(sums_, 0, size_.count(), stream_.get()));
    for (const SummedRange& tensor : tensors_) kernels_.SumBytes(tensor, stream_.get());
    gpu_.Must("cuMemcpyDtoHAsync", gpu_.cuda().MemcpyDtoHAsync(result_.view().data(), sums_,
                                                               size_.count(), stream_.get()));
  }

  const Gpu& gpu_;
  const Kernels& kernels_;
  const Stream stream_;
  const Bytes size_;
  const CUdeviceptr sums_;
  const Pinned result_;
  std::vector<SummedRange> tensors_;
  CUgraphExec graph_ = nullptr;
};

}  // namespace

void RunHandOver(const Setting& setting) {
  const Gpu gpu;
  const ServedModels models({.payload = setting.model, .capacity = setting.model + kMostPadding});
  LoadResult a = models.Load(models.a(), Reuse::kFresh);
  models.a().Check(*a.lease);
  const std::byte* const base = a.lease->base();

  std::optional<Kernels> kernels;
  std::optional<SumGraph> graph;
  std::string without;  // why there is no graph
  try {
    kernels.emplace(gpu);
    graph.emplace(gpu, *kernels, models.a(), *a.lease);
    setting.findings.Check("the graph gives A's results", graph->Replay() == SumsOf(models.a()));
  } catch (const CannotRun& reason) {
    without = reason.what();
  }
  models.GiveUp(a, models.a());

  LoadResult b = models.Load(models.b(), Reuse::kAdopted);
  setting.findings.Check("B has the addresses that A had", b.lease->base() == base);
  models.b().Check(*b.lease);
  setting.findings.Check("the client reads B's bytes there", true);
  if (!graph.has_value()) throw CannotRun(without);

  setting.findings.Check("the same graph gives B's results", graph->Replay() == SumsOf(models.b()));
  bench::Samples replay;
  for (int i = 0; i < 20; ++i) {
    replay.Add(bench::Microseconds(bench::TimeOf([&] { graph->Replay(); })));
  }
  setting.findings.Figure("graph_replay_us", replay);
  models.GiveUp(b, models.b());
}

}  // namespace tenure::trial
