#include "tests/gpu/trial/findings.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

namespace tenure::trial {

using nlohmann::json;

void Findings::Check(const std::string& what, bool holds) {
  Tell(json{{"check", what}, {"holds", holds}}.dump());
}

void Findings::Figure(const std::string& key, const bench::Samples& samples) {
  Tell(json{{"figure", key},
            {"p50", samples.Median()},
            {"p90", samples.Quantile(0.9)},
            {"p99", samples.Quantile(0.99)}}
           .dump());
}

void Findings::Figure(const std::string& key, double value) {
  Tell(json{{"figure", key}, {"value", value}}.dump());
}

void Findings::Say(const std::string& words) {
  Tell(json(json::object({{"words", words}})).dump(-1, ' ', false, json::error_handler_t::replace));
}

void Findings::Tell(const std::string& line) {
  const std::string text = line + "\n";
  if (write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error("nobody listens to what was found");
  }
}

}  // namespace tenure::trial
