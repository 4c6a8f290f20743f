// What loads cost through the daemon, beside what the same bytes cost without one.

#include <algorithm>

#include "tests/gpu/trial/gpu.h"
#include "tests/gpu/trial/served_models.h"
#include "tests/gpu/trial/torch_load.h"

namespace tenure::trial {
namespace {

using bench::BenchModel;
using bench::Microseconds;
using bench::Milliseconds;
using bench::Samples;
using bench::TimeOf;
using client::LoadResult;
using client::Reuse;

constexpr int kRounds = 5;
constexpr Bytes kPiece = MiB(32);

double GigabytesPerSecond(Bytes bytes, Duration took) {
  return static_cast<double>(bytes.count()) / static_cast<double>(took.count());
}

std::vector<std::byte> PayloadOf(const BenchModel& model) {
  std::vector<std::byte> payload(model.payload().count());
  model.ReadPayload(payload);
  return payload;
}

// Copies pinned memory to the device, piece by piece, until `size` bytes are there.
Duration CopyPinned(const Gpu& gpu, const Pinned& pinned, CUdeviceptr to, Bytes size,
                    const Stream& stream) {
  return TimeOf([&] {
    for (uint64_t at = 0; at < size.count(); at += kPiece.count()) {
      const size_t piece = std::min(kPiece.count(), size.count() - at);
      gpu.Must("cuMemcpyHtoDAsync",
               gpu.cuda().MemcpyHtoDAsync(to + at, pinned.view().data(), piece, stream.get()));
    }
    stream.Wait();
  });
}

void MeasurePinned(const Gpu& gpu, Bytes size, Findings& findings) {
  const Pinned pinned(gpu, kPiece);
  for (size_t i = 0; i < pinned.view().size(); ++i) pinned.view()[i] = std::byte(i * 31 >> 3);
  const Stream stream(gpu);
  const CUdeviceptr to = gpu.Alloc(size);
  Samples rate;
  for (int i = 0; i < kRounds; ++i) {
    rate.Add(GigabytesPerSecond(size, CopyPinned(gpu, pinned, to, size, stream)));
  }
  bool right = true;
  std::vector<std::byte> seen(kPiece.count());
  for (uint64_t at = 0; at < size.count(); at += kPiece.count()) {
    const size_t piece = std::min(kPiece.count(), size.count() - at);
    gpu.CopyOut(std::span(seen).first(piece), to + at);
    right = right && std::equal(seen.begin(), seen.begin() + static_cast<ptrdiff_t>(piece),
                                pinned.view().begin());
  }
  gpu.FreeAlloc(to);
  findings.Check("the pinned copies have the right bytes", right);
  findings.Figure("pinned_copy_gb_per_s", rate);
}

// What a program without a daemon does: one allocation and one copy for each tensor.
class PlainLoad {
 public:
  PlainLoad(const Gpu& gpu, const BenchModel& model) : gpu_(gpu) {
    for (const TensorSpec& spec : BenchModel::Specs(model.payload())) {
      sizes_.push_back(*TensorBytes(spec));
    }
  }

  void Load(std::span<const std::byte> payload) {
    for (const Bytes size : sizes_) {
      places_.push_back(gpu_.Alloc(size));
      gpu_.CopyIn(places_.back(), payload.first(size.count()));
      payload = payload.subspan(size.count());
    }
    gpu_.Must("cuCtxSynchronize", gpu_.cuda().CtxSynchronize());
  }
  bool Shows(std::span<const std::byte> payload) const {
    std::vector<std::byte> seen;
    for (size_t i = 0; i < places_.size(); ++i) {
      seen.resize(sizes_[i].count());
      gpu_.CopyOut(seen, places_[i]);
      if (!std::ranges::equal(seen, payload.first(seen.size()))) return false;
      payload = payload.subspan(seen.size());
    }
    return true;
  }
  void Free() {
    for (const CUdeviceptr place : places_) gpu_.FreeAlloc(place);
    places_.clear();
  }

 private:
  const Gpu& gpu_;
  std::vector<Bytes> sizes_;
  std::vector<CUdeviceptr> places_;
};

void MeasurePlain(const Gpu& gpu, const BenchModel& model, Findings& findings) {
  std::vector<std::byte> payload = PayloadOf(model);
  PlainLoad plain(gpu, model);
  Samples from_memory;
  Samples from_file;
  Samples free;
  bool right = true;
  for (int i = 0; i < kRounds; ++i) {
    from_memory.Add(Milliseconds(TimeOf([&] { plain.Load(payload); })));
    right = right && plain.Shows(payload);
    free.Add(Milliseconds(TimeOf([&] { plain.Free(); })));
    from_file.Add(Milliseconds(TimeOf([&] {
      model.ReadPayload(payload);
      plain.Load(payload);
    })));
    right = right && plain.Shows(payload);
    plain.Free();
  }
  findings.Check("the plain loads have the right bytes", right);
  findings.Figure("cumemalloc_copy_ms", from_memory);
  findings.Figure("pread_cumemalloc_copy_ms", from_file);
  findings.Figure("cumemfree_ms", free);
}

void MeasureAdoptions(const Setting& setting, int copy_threads) {
  const ServedModels models({.payload = setting.model,
                             .capacity = setting.model + kMostPadding,
                             .copy_threads = copy_threads});
  Samples rate;
  Samples read;
  LoadResult a = models.Load(models.a(), Reuse::kFresh);
  models.GiveUp(a, models.a());
  for (int i = 0; i < kRounds; ++i) {
    for (const BenchModel* model : {&models.b(), &models.a()}) {
      LoadResult loaded;
      const Duration took = TimeOf([&] { loaded = models.Load(*model, Reuse::kAdopted); });
      rate.Add(GigabytesPerSecond(models.payload(), took));
      read.Add(GigabytesPerSecond(models.payload(), loaded.phases.read + loaded.phases.copy));
      model->Check(*loaded.lease);
      models.GiveUp(loaded, *model);
    }
  }
  const std::string threads = "_" + std::to_string(copy_threads) + "_threads_gb_per_s";
  setting.findings.Figure("load" + threads, rate);
  setting.findings.Figure("load_read_and_copy" + threads, read);
}

}  // namespace

void RunLoadRate(const Setting& setting) {
  const Gpu gpu;
  MeasurePinned(gpu, setting.model, setting.findings);
  for (const int copy_threads : {2, 4, 8}) MeasureAdoptions(setting, copy_threads);
  setting.findings.Check("every load has the right bytes", true);
}

void RunModelTimes(const Setting& setting) {
  const Gpu gpu;
  const ServedModels models({.payload = setting.model, .capacity = setting.model + kMostPadding});
  Samples fresh;
  Samples acquire;
  Samples revived;
  Samples adopted;
  for (int i = 0; i < kRounds; ++i) {
    LoadResult a;
    fresh.Add(Milliseconds(TimeOf([&] { a = models.Load(models.a(), Reuse::kFresh); })));
    models.a().Check(*a.lease);
    absl::StatusOr<WeightLease> second;
    acquire.Add(Microseconds(
        TimeOf([&] { second = models.client().Acquire({.name = models.a().name()}); })));
    if (!second.ok()) throw std::runtime_error(second.status().ToString());
    models.a().Check(*second);
    if (!second->Release().ok()) throw std::runtime_error("a lease was lost");
    models.GiveUp(a, models.a());
    revived.Add(Microseconds(TimeOf([&] { a = models.Load(models.a(), Reuse::kRevived); })));
    models.a().Check(*a.lease);
    models.GiveUp(a, models.a());
    LoadResult b;
    adopted.Add(
        Milliseconds(TimeOf([&] { b = models.Load(models.b(), Reuse::kAdopted, kNotRetained); })));
    models.b().Check(*b.lease);
    models.GiveUp(b, models.b());
    models.AwaitNothingHeld();
  }
  setting.findings.Check("every load has the right bytes", true);
  setting.findings.Figure("fresh_ms", fresh);
  setting.findings.Figure("adopted_ms", adopted);
  setting.findings.Figure("revived_us", revived);
  setting.findings.Figure("acquire_us", acquire);
  MeasurePlain(gpu, models.a(), setting.findings);
  MeasureTorch(models.a().path(), kRounds, setting);
}

void RunGiveBack(const Setting& setting) {
  const Gpu gpu;
  const ServedModels models({.payload = setting.model, .capacity = setting.model + kMostPadding});
  // The first load makes what the driver and the client keep.
  LoadResult loaded = models.Load(models.a(), Reuse::kFresh, kNotRetained);
  models.GiveUp(loaded, models.a());
  models.AwaitNothingHeld();

  const Bytes before = gpu.Free();
  loaded = models.Load(models.a(), Reuse::kFresh, kNotRetained);
  models.a().Check(*loaded.lease);
  const Bytes held = SaturatingSub(before, gpu.Free());
  models.GiveUp(loaded, models.a());
  const Duration took = TimeOf([&] { models.AwaitNothingHeld(); });
  const Bytes left = SaturatingSub(before, gpu.Free());
  setting.findings.Figure("held_mib", static_cast<double>(held / MiB(1)));
  setting.findings.Figure("left_mib", static_cast<double>(left / MiB(1)));
  setting.findings.Figure("give_back_ms", Milliseconds(took));
  setting.findings.Check("the loaded model takes its bytes of the device", held >= setting.model);
  setting.findings.Check("all of them are free after the reclaim", left < gpu.granule());
}

}  // namespace tenure::trial
