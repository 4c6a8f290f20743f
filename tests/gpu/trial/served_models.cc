#include "tests/gpu/trial/served_models.h"

#include <stdexcept>
#include <thread>

namespace tenure::trial {
namespace {

using client::LoadResult;
using client::Reuse;

constexpr auto kPatience = std::chrono::seconds(20);

TenuredSettings SettingsOf(const ServedModels::Options& options) {
  TenuredSettings settings;
  settings.segment_size = "64MiB";
  settings.cache_ttl = "0s";
  settings.device =
      "{name: \"gpu:0\", backend: cuda, weights: " + std::to_string(options.capacity / MiB(1)) +
      "MiB, runtime: " + std::to_string(options.runtime / MiB(1)) + "MiB}";
  settings.copy_threads = options.copy_threads;
  settings.executable = Beside("tenured");
  return settings;
}

void Must(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

}  // namespace

ServedModels::ServedModels(const Options& options)
    : daemon_(SettingsOf(options)),
      client_(daemon_.Connect("gpu-trial")),
      a_("a", daemon_.ModelPath("a.safetensors"), bench::BenchModel::Specs(options.payload), 1),
      b_("b", daemon_.ModelPath("b.safetensors"), bench::BenchModel::Specs(options.payload), 2) {}

LoadResult ServedModels::Load(const bench::BenchModel& model, Reuse expected,
                              const client::Retention& retention) const {
  absl::StatusOr<LoadResult> loaded = TryLoad(model, retention);
  Must(loaded.status());
  if (loaded->reuse != expected) {
    throw std::runtime_error("a load of " + model.name() + " was " +
                             std::string(client::ReuseName(loaded->reuse)) + ", not " +
                             std::string(client::ReuseName(expected)));
  }
  return *std::move(loaded);
}

absl::StatusOr<LoadResult> ServedModels::TryLoad(const bench::BenchModel& model,
                                                 const client::Retention& retention) const {
  return client_.Load(
      {.name = model.name(), .path = model.path(), .retention = retention, .acquire = true});
}

void ServedModels::Unload(const bench::BenchModel& model) const {
  Must(client_.Unload(model.name()).status());
}

void ServedModels::GiveUp(LoadResult& loaded, const bench::BenchModel& model) const {
  Must(loaded.lease->Release());
  Unload(model);
}

void ServedModels::AwaitNothingHeld() const {
  const SteadyClock clock;
  const Instant give_up = After(clock.Now(), kPatience);
  while (true) {
    const auto status = client_.Status();
    Must(status.status());
    const bool held = status->devices.at(0).arenas.at(0).reserved > 0;
    if (!held && client_.mapped_region_count() == 0) return;
    if (clock.Now() > give_up) throw std::runtime_error("the memory does not go back");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace tenure::trial
