#include "tests/bench/samples.h"

#include <absl/strings/str_format.h>
#include <algorithm>
#include <fstream>
#include <iostream>
#include <stdexcept>

#include "core/base/check.h"

namespace tenure::bench {

double Samples::Quantile(double quantile) const {
  TENURE_CHECK(!values_.empty());
  std::vector<double> sorted = values_;
  std::sort(sorted.begin(), sorted.end());
  const double place = quantile * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

void Report::Add(const std::string& key, const Samples& samples) {
  samples_.emplace_back(key, samples);
}

void Report::Add(const std::string& key, double value) { numbers_.emplace_back(key, value); }

void Report::AddGoal(const std::string& what, double value, double limit) {
  goals_.push_back(absl::StrFormat("%-6s %s: %.3f, at most %.3f", value <= limit ? "met" : "MISSED",
                                   what, value, limit));
}

void Report::PrintTable() const {
  std::cout << absl::StrFormat("%-28s %12s %12s %12s\n", "", "p50", "p90", "p99");
  for (const auto& [key, samples] : samples_) {
    std::cout << absl::StrFormat("%-28s %12.3f %12.3f %12.3f\n", key, samples.Median(),
                                 samples.Quantile(0.9), samples.Quantile(0.99));
  }
  for (const auto& [key, value] : numbers_) {
    std::cout << absl::StrFormat("%-28s %12.3f\n", key, value);
  }
  for (const std::string& goal : goals_) std::cout << goal << "\n";
  std::cout << std::flush;
}

void Report::WriteJson(const std::string& path) const {
  std::ofstream out(path, std::ios::trunc);
  const char* separator = "{\n";
  for (const auto& [key, samples] : samples_) {
    out << separator
        << absl::StrFormat(R"(  "%s": {"p50": %.6g, "p90": %.6g, "p99": %.6g})", key,
                           samples.Median(), samples.Quantile(0.9), samples.Quantile(0.99));
    separator = ",\n";
  }
  for (const auto& [key, value] : numbers_) {
    out << separator << absl::StrFormat(R"(  "%s": %.6g)", key, value);
    separator = ",\n";
  }
  out << "\n}\n";
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace tenure::bench
