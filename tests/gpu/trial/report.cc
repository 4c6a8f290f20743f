#include "tests/gpu/trial/report.h"

#include <absl/strings/str_format.h>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>

namespace tenure::trial {
namespace {

using nlohmann::json;

std::string NameOf(Ending ending) {
  switch (ending) {
    case Ending::kFinished:
      return "finished";
    case Ending::kFailed:
      return "failed";
    case Ending::kCannotRun:
      return "cannot run";
    case Ending::kTimedOut:
      return "timed out";
    case Ending::kInterrupted:
      return "interrupted";
  }
  return "";
}

}  // namespace

Report::Report(json machine) : json_(std::move(machine)) {
  std::cout << absl::StrFormat("%-43s %12s %12s %12s\n", json_["device"].get<std::string>(), "p50",
                               "p90", "p99");
}

void Report::Begin(const Part& part) {
  part_ = {{"number", part.number},
           {"name", part.name},
           {"words", json::array()},
           {"checks", json::array()},
           {"figures", json::object()}};
  std::cout << absl::StrFormat("%2d %s: %s\n", part.number, part.name, part.question) << std::flush;
}

void Report::Hear(const std::string& line) {
  json found = json::parse(line);
  if (found.contains("words")) {
    part_["words"].push_back(found["words"]);
    std::cout << "   " << found["words"].get<std::string>() << "\n";
  } else if (found.contains("check")) {
    const bool holds = found["holds"];
    good_ = good_ && holds;
    part_["checks"].push_back({{"what", found["check"]}, {"holds", holds}});
    std::cout << (holds ? "   ok     " : "   FAILED ") << found["check"].get<std::string>() << "\n";
  } else {
    const std::string key = found["figure"];
    if (found.contains("value")) {
      part_["figures"][key] = found["value"];
      std::cout << absl::StrFormat("   %-40s %12.3f\n", key, found["value"].get<double>());
    } else {
      std::cout << absl::StrFormat("   %-40s %12.3f %12.3f %12.3f\n", key,
                                   found["p50"].get<double>(), found["p90"].get<double>(),
                                   found["p99"].get<double>());
      found.erase("figure");
      part_["figures"][key] = std::move(found);
    }
  }
  std::cout << std::flush;
}

void Report::End(Ending ending, Duration took) {
  good_ = good_ && (ending == Ending::kFinished || ending == Ending::kCannotRun);
  const double seconds = std::chrono::duration<double>(took).count();
  part_["ending"] = NameOf(ending);
  part_["seconds"] = seconds;
  json_["parts"].push_back(std::move(part_));
  std::cout << absl::StrFormat("   %s after %.1f s\n", NameOf(ending), seconds) << std::flush;
}

void Report::Skip(const Part& part, const std::string& words) {
  Begin(part);
  Hear(json{{"words", words}}.dump());
  End(Ending::kCannotRun, Duration::zero());
}

void Report::PrintTotals() const {
  std::map<std::string, int> endings;
  for (const json& part : json_["parts"]) ++endings[part["ending"]];
  const char* separator = "";
  for (const auto& [ending, parts] : endings) {
    std::cout << separator << parts << " " << ending;
    separator = ", ";
  }
  std::cout << (good_ ? "; every check holds\n" : "; NOT every check holds\n") << std::flush;
}

void Report::Write(const std::string& path) const {
  std::ofstream out(path, std::ios::trunc);
  out << json_.dump(1) << "\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace tenure::trial
