#pragma once

#include <cstdint>
#include <limits>
#include <prometheus/metric_family.h>
#include <string>
#include <utility>
#include <vector>

#include "core/base/duration_histogram.h"
#include "core/base/units.h"

namespace tenure {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;
using MetricFamilies = std::vector<prometheus::MetricFamily>;

// Gathers the series of one family.
class FamilyBuilder {
 public:
  FamilyBuilder(std::string name, std::string help, prometheus::MetricType type) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void Add(MetricLabels labels, double value) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    const bool counter = family_.type == prometheus::MetricType::Counter;
    (counter ? metric.counter.value : metric.gauge.value) = value;
    family_.metric.push_back(std::move(metric));
  }
  void Add(MetricLabels labels, uint64_t value) {
    Add(std::move(labels), static_cast<double>(value));
  }
  void Add(MetricLabels labels, Bytes value) { Add(std::move(labels), value.count()); }

  template <const auto& kBounds>
  void Add(MetricLabels labels, const DurationHistogram<kBounds>& durations) {
    prometheus::ClientMetric metric;
    metric.label = std::move(labels);
    uint64_t count = 0;
    for (size_t bucket = 0; bucket < durations.counts.size(); ++bucket) {
      count += durations.counts[bucket];
      metric.histogram.bucket.push_back({count, bucket < kBounds.size()
                                                    ? kBounds[bucket]
                                                    : std::numeric_limits<double>::infinity()});
    }
    metric.histogram.sample_count = count;
    metric.histogram.sample_sum = durations.sum_seconds;
    family_.metric.push_back(std::move(metric));
  }

  void MoveTo(MetricFamilies& families) { families.push_back(std::move(family_)); }

 private:
  prometheus::MetricFamily family_;
};

}  // namespace tenure
