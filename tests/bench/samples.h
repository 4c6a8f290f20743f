#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tenure::bench {

// One figure, measured many times. Thread-compatible.
class Samples {
 public:
  void Add(double value) { values_.push_back(value); }
  // The value below which a share of `quantile` lies, 0 <= quantile <= 1. REQUIRES: one was added.
  double Quantile(double quantile) const;
  double Median() const { return Quantile(0.5); }

 private:
  std::vector<double> values_;
};

// What a benchmark found out: a table for people, a flat JSON object for programs. Keys are
// unlike and come in the order in which they were added. Thread-compatible.
class Report {
 public:
  // A figure as {"p50": ..., "p90": ..., "p99": ...}; the unit is the key's ending.
  void Add(const std::string& key, const Samples& samples);
  // A figure that is one number.
  void Add(const std::string& key, double value);
  // Prints whether a goal was reached: `value` is not to be above `limit`.
  void AddGoal(const std::string& what, double value, double limit);

  void PrintTable() const;
  // Throws std::runtime_error if the disk refuses.
  void WriteJson(const std::string& path) const;

 private:
  std::vector<std::pair<std::string, Samples>> samples_;
  std::vector<std::pair<std::string, double>> numbers_;
  std::vector<std::string> goals_;
};

}  // namespace tenure::bench
