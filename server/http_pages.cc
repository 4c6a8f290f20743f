#include "server/http_pages.h"

#include <memory>
#include <prometheus/text_serializer.h>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/base/status.h"
#include "core/device/cuda_device.h"
#include "proto/map_page/map_page.h"
#include "server/json.h"
#include "server/limit.h"

namespace tenure {
namespace {

using tenure::ToJson;
using Json = nlohmann::ordered_json;

constexpr char kJsonType[] = "application/json";
// Maps under way at a time: each holds up the stores for a moment.
constexpr int kMaxMaps = 4;

HttpReply ToReply(const Json& json, int status = 200) {
  return {.status = status,
          .type = kJsonType,
          .body = json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"};
}

Json ToJson(const char* name, const Ledger& ledger) {
  return {{"arena", name},
          {"capacity_bytes", ledger.capacity.count()},
          {"allocated_bytes", ledger.allocated().count()},
          {"retained_bytes", ledger.retained.count()},
          {"free_bytes", ledger.free().count()},
          {"largest_free_bytes", ledger.largest_free.count()}};
}

Json ToJson(const WantedModels::Pending& pending) {
  const std::optional<ErrorDetail> detail = DetailOf(pending.error);
  return {{"name", pending.model.name},
          {"device", pending.model.device},
          {"loading", pending.loading},
          {"reason", detail.has_value() ? detail->reason : ""},
          {"message", std::string(pending.error.message())}};
}

HttpReply Readiness(const HttpSources& sources) {
  const WantedModels::Progress progress = sources.wanted.GetProgress();
  const bool serving = sources.serving();
  bool device_left = false;
  Json devices = Json::array();
  for (size_t i = 0; i < sources.store.devices().size(); ++i) {
    const DeviceStore& store = *sources.store.devices()[i];
    const DeviceStore::Snapshot weights = store.TakeSnapshot();
    const RuntimeStore::Snapshot runtime = sources.store.runtimes()[i]->TakeSnapshot();
    device_left = device_left || weights.lost.ok();
    devices.push_back(
        {{"name", store.device_info().name},
         {"backend", store.device_info().backend},
         {"uuid", store.device_info().uuid},
         {"serving", weights.lost.ok()},
         {"lost", std::string(weights.lost.message())},
         {"cordoned", weights.cordoned},
         {"arenas", {ToJson("weights", weights.ledger), ToJson("runtime", runtime.ledger)}}});
  }
  Json pending = Json::array();
  for (const WantedModels::Pending& each : progress.pending) pending.push_back(ToJson(each));
  const bool ready = serving && progress.ready && device_left;
  return ToReply({{"ready", ready},
                  {"serving", serving},
                  {"models", {{"wanted", progress.wanted}, {"pending", std::move(pending)}}},
                  {"devices", std::move(devices)}},
                 ready ? 200 : 503);
}

HttpReply Version(const HttpSources& sources) {
  Json backends = {"host"};
  if (HasCudaBackend()) backends.push_back("cuda");
  return ToReply({{"version", TENURE_VERSION},
                  {"boot_id", sources.boot_id},
                  {"backends", std::move(backends)}});
}

HttpReply Map(const HttpSources& sources, Limit& limit) {
  const std::optional<Limit::Place> place = limit.TryEnter();
  if (!place.has_value()) {
    return {.status = 503, .type = "text/plain; charset=utf-8", .body = "too many ask at once\n"};
  }
  return {.type = kJsonType, .body = ToJson(sources.maps.Take())};
}

}  // namespace

HttpPages MakeHttpPages(HttpSources sources) {
  const auto shared = std::make_shared<const HttpSources>(std::move(sources));
  const auto maps = std::make_shared<Limit>(kMaxMaps);
  return {
      {"/",
       [] {
         return HttpReply{.type = "text/html; charset=utf-8",
                          .body = MapPage(""),
                          .policy = MapPagePolicy() + "; frame-ancestors 'none'"};
       }},
      {"/healthz", [] { return HttpReply{.type = "text/plain; charset=utf-8", .body = "ok\n"}; }},
      {"/map.json", [shared, maps] { return Map(*shared, *maps); }},
      {"/metrics",
       [shared] {
         return HttpReply{
             .type = "text/plain; version=0.0.4; charset=utf-8",
             .body = prometheus::TextSerializer().Serialize(shared->metrics.Collect())};
       }},
      {"/readyz", [shared] { return Readiness(*shared); }},
      {"/version", [shared] { return Version(*shared); }},
  };
}

}  // namespace tenure
