#include "client/cli/plan_remedy.h"

#include "client/cli/format.h"
#include "core/base/clock.h"

namespace tenure::cli {
namespace {

// "A, B, C and 5 more"
template <typename Items, typename ToText>
std::string Listed(const Items& items, ToText to_text) {
  constexpr size_t kMost = 8;
  std::string text;
  for (size_t i = 0; i < items.size() && i < kMost; ++i) {
    text += (i == 0 ? "" : ", ") + to_text(items[i]);
  }
  if (items.size() > kMost) text += " and " + std::to_string(items.size() - kMost) + " more";
  return text;
}

const std::string& NameOf(const PlanInput& input, const PlanProblem& problem, uint32_t storage) {
  return input[problem.storages[storage].buffer].id;
}

}  // namespace

PlanRemedy FindRemedy(const PlanInput& input, const PlanProblem& problem, Bytes capacity,
                      const PlanLimits& limits) {
  return {.shortfall = FindShortfall(problem, capacity),
          .late = FindLateStarts(input, capacity, limits, SteadyClock())};
}

void AddRemedy(const PlanInput& input, const PlanProblem& problem, const PlanRemedy& remedy,
               std::vector<std::pair<std::string, std::string>>& fields) {
  if (remedy.shortfall.has_value()) {
    fields.emplace_back("at step " + std::to_string(remedy.shortfall->step),
                        FormatBytes(remedy.shortfall->needed.count()) + " are alive: " +
                            Listed(remedy.shortfall->storages, [&](uint32_t storage) {
                              return NameOf(input, problem, storage);
                            }));
  }
  if (!remedy.late.has_value()) {
    fields.emplace_back("later starts", "none were found that help");
    return;
  }
  const std::string starts = Listed(remedy.late->starts, [&](const LateStart& start) {
    return input[start.buffer].id + " at " + std::to_string(start.first_use);
  });
  fields.emplace_back("later starts", starts + " would fit, " + std::to_string(remedy.late->delay) +
                                          " later in all" +
                                          (remedy.late->proven ? ", the least that helps" : ""));
}

void AddRemedy(const PlanInput& input, const PlanProblem& problem, const PlanRemedy& remedy,
               nlohmann::ordered_json& json) {
  if (remedy.shortfall.has_value()) {
    nlohmann::json buffers = nlohmann::json::array();
    for (const uint32_t storage : remedy.shortfall->storages) {
      buffers.push_back(NameOf(input, problem, storage));
    }
    json["shortfall"] = {{"step", remedy.shortfall->step},
                         {"needed", remedy.shortfall->needed.count()},
                         {"buffers", std::move(buffers)}};
  }
  if (!remedy.late.has_value()) return;
  nlohmann::json starts = nlohmann::json::array();
  for (const LateStart& start : remedy.late->starts) {
    starts.push_back({{"id", input[start.buffer].id}, {"lower", start.first_use}});
  }
  json["late_starts"] = {{"delay", remedy.late->delay},
                         {"proven", remedy.late->proven},
                         {"starts", std::move(starts)}};
}

}  // namespace tenure::cli
