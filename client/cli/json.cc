#include "client/cli/json.h"

#include <nlohmann/json.hpp>

namespace tenure::cli {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const std::vector<client::Holder>& holders) {
  Json list = Json::array();
  for (const client::Holder& holder : holders) {
    list.push_back({{"session_id", holder.session_id},
                    {"program", holder.program},
                    {"instance", holder.instance},
                    {"lease_count", holder.lease_count},
                    {"quarantined", holder.quarantined}});
  }
  return list;
}

Json ToJson(const client::Device& device) {
  Json arenas = Json::array();
  for (const client::ArenaLedger& ledger : device.arenas) arenas.push_back(cli::ToJson(ledger));
  const client::BackendCounters& counters = device.backend_counters;
  return {{"name", device.name},
          {"backend", device.backend},
          {"uuid", device.uuid},
          {"total_bytes", device.total_bytes},
          {"granule_bytes", device.granule_bytes},
          {"foreign_bytes", device.foreign_bytes},
          {"lost", device.lost},
          {"cordoned", device.cordoned},
          {"arenas", arenas},
          {"backend_counters",
           {{"segments_created", counters.segments_created},
            {"segments_destroyed", counters.segments_destroyed},
            {"bytes_created", counters.bytes_created},
            {"bytes_destroyed", counters.bytes_destroyed},
            {"exports", counters.exports}}}};
}

}  // namespace

Json ToJson(const client::ArenaLedger& ledger) {
  return {{"arena", ledger.arena},
          {"capacity", ledger.capacity},
          {"leased", ledger.leased},
          {"loading", ledger.loading},
          {"idle", ledger.idle},
          {"retained", ledger.retained},
          {"quarantined", ledger.quarantined},
          {"padding", ledger.padding},
          {"cached", ledger.cached},
          {"pooled", ledger.pooled},
          {"unbacked", ledger.unbacked},
          {"stranded", ledger.stranded},
          {"lost", ledger.lost},
          {"free", ledger.free},
          {"reserved", ledger.reserved},
          {"allocated", ledger.allocated},
          {"requested", ledger.requested},
          {"largest_free", ledger.largest_free},
          {"fragmentation_ratio", ledger.fragmentation_ratio}};
}

Json ToJson(const client::Model& model) {
  Json json = {{"name", model.name},
               {"revision", model.revision},
               {"state", client::ModelStateName(model.state)},
               {"device", model.device},
               {"path", model.path},
               {"architecture_key", model.architecture_key},
               {"content_id", model.content_id},
               {"region_id", model.region_id},
               {"generation", model.generation},
               {"tensor_count", model.tensor_count},
               {"tensor_bytes", model.tensor_bytes},
               {"region_bytes", model.region_bytes},
               {"pinned", model.pinned},
               {"holders", ToJson(model.holders)}};
  json["expires_in_ns"] = model.expires_in ? Json(model.expires_in->count()) : Json(nullptr);
  return json;
}

Json ToJson(const client::ModelEvent& event) {
  Json json = {{"model", ToJson(event.model)}};
  if (event.progress) {
    json["progress"] = {{"stage", event.progress->stage},
                        {"bytes_done", event.progress->bytes_done},
                        {"bytes_total", event.progress->bytes_total},
                        {"bytes_per_second", event.progress->bytes_per_second}};
  }
  if (!event.error.empty()) json["error"] = event.error;
  return json;
}

Json ToJson(const client::LoadResult& result) {
  const client::LoadPhases& phases = result.phases;
  return {{"model", ToJson(result.model)},
          {"reuse", client::ReuseName(result.reuse)},
          {"bytes_copied", result.bytes_copied},
          {"segments_created", result.segments_created},
          {"segments_reused", result.segments_reused},
          {"reclaimed", result.reclaimed},
          {"phases_ns",
           {{"open", phases.open.count()},
            {"parse", phases.parse.count()},
            {"place", phases.place.count()},
            {"read", phases.read.count()},
            {"copy", phases.copy.count()},
            {"publish", phases.publish.count()},
            {"total", phases.total.count()}}}};
}

Json ToJson(const client::UnloadResult& result) {
  return {{"state", client::ModelStateName(result.state)},
          {"freed_bytes", result.freed_bytes},
          {"retained_bytes", result.retained_bytes},
          {"deferred_bytes", result.deferred_bytes},
          {"holders", ToJson(result.holders)}};
}

Json ToJson(const client::DaemonStatus& status) {
  Json devices = Json::array();
  for (const client::Device& device : status.devices) devices.push_back(ToJson(device));
  Json roots = Json::array();
  for (const client::ModelRoot& root : status.model_roots) {
    roots.push_back({{"name", root.name}, {"path", root.path}});
  }
  return {{"version", status.version},
          {"boot_id", status.boot_id},
          {"uptime_ns", status.uptime.count()},
          {"devices", devices},
          {"metrics_address", status.metrics_address},
          {"model_roots", roots},
          {"readiness", ToJson(status.readiness)}};
}

Json ToJson(const client::Readiness& readiness) {
  Json pending = Json::array();
  for (const client::PendingModel& model : readiness.pending) {
    pending.push_back({{"name", model.name},
                       {"path", model.path},
                       {"device", model.device},
                       {"loading", model.loading},
                       {"reason", model.reason},
                       {"message", model.message}});
  }
  return {{"ready", readiness.ready}, {"wanted", readiness.wanted}, {"pending", pending}};
}

Json ToJson(const client::Session& session) {
  return {{"session_id", session.session_id},
          {"program", session.program},
          {"instance", session.instance},
          {"uid", session.uid},
          {"gid", session.gid},
          {"pid", session.pid},
          {"state", client::SessionStateName(session.state)},
          {"lease_count", session.lease_count},
          {"share_count", session.share_count},
          {"quarantined_share_count", session.quarantined_share_count},
          {"silent_for_ns", session.silent_for.count()}};
}

Json ToJson(const client::TensorPlace& tensor) {
  return {{"name", tensor.name},
          {"dtype", tensor.dtype},
          {"shape", tensor.shape},
          {"offset", tensor.offset},
          {"bytes", tensor.bytes}};
}

Json ToJson(const client::DeviceFit& fit) {
  return {{"device", fit.device},
          {"verdict", client::FitVerdictName(fit.verdict)},
          {"needed_bytes", fit.needed_bytes},
          {"capacity_bytes", fit.capacity_bytes},
          {"free_bytes", fit.free_bytes},
          {"largest_now_bytes", fit.largest_now_bytes},
          {"largest_bytes", fit.largest_bytes},
          {"explanation", fit.explanation}};
}

Json ToJson(const client::Event& event) {
  const auto nanos =
      std::chrono::duration_cast<std::chrono::nanoseconds>(event.time.time_since_epoch());
  Json json = {{"sequence", event.sequence},
               {"time", static_cast<double>(nanos.count()) / 1e9},
               {"kind", event.kind},
               {"device", event.device},
               {"session_id", event.session_id},
               {"program", event.program},
               {"instance", event.instance},
               {"subject", event.subject},
               {"bytes", event.bytes},
               {"took_ns", event.took.count()},
               {"detail", event.detail}};
  if (event.ledger) json["ledger"] = ToJson(*event.ledger);
  return json;
}

Json ToJson(const client::Refusal& refusal) {
  return {{"refusal_id", refusal.refusal_id},
          {"age_ns", refusal.age.count()},
          {"method", refusal.method},
          {"session_id", refusal.session_id},
          {"program", refusal.program},
          {"instance", refusal.instance},
          {"reason", refusal.reason},
          {"message", refusal.message},
          {"values", refusal.values},
          {"now", refusal.now ? ToJson(*refusal.now) : Json(nullptr)}};
}

}  // namespace tenure::cli
