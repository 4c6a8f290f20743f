#include "server/metrics_operation.h"

#include <gtest/gtest.h>
#include <map>
#include <string>

#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

class MetricsOperationTest : public ServiceTest {
 protected:
  // By `name{value of the only label}`.
  std::map<std::string, double> Series() const {
    const DeviceSnapshot snapshot{.device = "host:0",
                                  .backend = "host",
                                  .uuid = "",
                                  .weights = store_->devices()[0]->TakeSnapshot(),
                                  .runtime = store_->runtimes()[0]->TakeSnapshot()};
    MetricFamilies families;
    AddOperation(families, {snapshot}, reloads_.Get());
    std::map<std::string, double> series;
    for (const prometheus::MetricFamily& family : families) {
      for (const prometheus::ClientMetric& metric : family.metric) {
        const std::string label = metric.label.empty() ? "" : metric.label[0].value;
        const bool counter = family.type == prometheus::MetricType::Counter;
        series[family.name + "{" + label + "}"] =
            counter ? metric.counter.value : metric.gauge.value;
      }
    }
    return series;
  }
  ReloadLog reloads_;
};

TEST_F(MetricsOperationTest, TellsWhichDevicesAreCordoned) {
  EXPECT_EQ(Series().at("tenure_device_cordoned{host:0}"), 0);
  ASSERT_TRUE(control_->SetCordoned("host:0", true).ok());
  EXPECT_EQ(Series().at("tenure_device_cordoned{host:0}"), 1);
}

TEST_F(MetricsOperationTest, TellsWhatCameOfReloads) {
  auto series = Series();
  EXPECT_EQ(series.at("tenure_config_reloads_total{ok}"), 0);
  EXPECT_EQ(series.at("tenure_config_reloads_total{failed}"), 0);
  EXPECT_EQ(series.at("tenure_config_last_reload_successful{}"), 1);
  const double started = series.at("tenure_config_last_reload_timestamp_seconds{}");
  EXPECT_GT(started, 1.7e9);

  reloads_.Record(Error(Reason::kInvalidRequest, "no"));
  series = Series();
  EXPECT_EQ(series.at("tenure_config_reloads_total{failed}"), 1);
  EXPECT_EQ(series.at("tenure_config_last_reload_successful{}"), 0);
  EXPECT_GE(series.at("tenure_config_last_reload_timestamp_seconds{}"), started);
  reloads_.Record(absl::OkStatus());
  series = Series();
  EXPECT_EQ(series.at("tenure_config_reloads_total{ok}"), 1);
  EXPECT_EQ(series.at("tenure_config_last_reload_successful{}"), 1);
}

}  // namespace
}  // namespace tenure
