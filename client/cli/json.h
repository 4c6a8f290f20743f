#pragma once

// What `--json` prints: names as in the API's messages, bytes and nanoseconds as numbers.

#include <nlohmann/json_fwd.hpp>

#include "tenure/client.h"

namespace tenure::cli {

nlohmann::ordered_json ToJson(const client::Model& model);
nlohmann::ordered_json ToJson(const client::ModelEvent& event);
nlohmann::ordered_json ToJson(const client::LoadResult& result);
nlohmann::ordered_json ToJson(const client::UnloadResult& result);
nlohmann::ordered_json ToJson(const client::DaemonStatus& status);
nlohmann::ordered_json ToJson(const client::Readiness& readiness);
nlohmann::ordered_json ToJson(const client::Session& session);
nlohmann::ordered_json ToJson(const client::TensorPlace& tensor);
nlohmann::ordered_json ToJson(const client::DeviceFit& fit);
nlohmann::ordered_json ToJson(const client::ArenaLedger& ledger);
nlohmann::ordered_json ToJson(const client::Refusal& refusal);
nlohmann::ordered_json ToJson(const client::Event& event);

}  // namespace tenure::cli
