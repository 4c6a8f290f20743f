#include "server/metrics.h"

#include <atomic>
#include <chrono>
#include <future>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/translate.h"
#include "tests/server/service_fixture.h"

namespace tenure {
namespace {

// Every series of one scrape, as `name{label="value",...}`; of a histogram the count.
std::map<std::string, double> Scrape(const Metrics& metrics) {
  std::map<std::string, double> series;
  for (const prometheus::MetricFamily& family : metrics.Collect()) {
    EXPECT_TRUE(family.name.starts_with("tenure_") || family.name.starts_with("process_"))
        << family.name;
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.name.ends_with("_total"), family.type == prometheus::MetricType::Counter);
    for (const prometheus::ClientMetric& metric : family.metric) {
      std::string key = family.name + "{";
      for (const auto& label : metric.label) key += label.name + "=" + label.value + ",";
      key.back() = metric.label.empty() ? '{' : '}';
      const bool counter = family.type == prometheus::MetricType::Counter;
      const bool histogram = family.type == prometheus::MetricType::Histogram;
      const double value = histogram ? static_cast<double>(metric.histogram.sample_count)
                           : counter ? metric.counter.value
                                     : metric.gauge.value;
      EXPECT_TRUE(series.emplace(key, value).second) << key;
    }
  }
  return series;
}

class MetricsTest : public ServiceTest {
 protected:
  void ExpectBalance() const {
    const auto series = Scrape(metrics_);
    for (const std::string arena : {"weights", "runtime"}) {
      const std::string labels = "{device=host:0,arena=" + arena;
      double sum = 0;
      int states = 0;
      for (const auto& [key, value] : series) {
        if (!key.starts_with("tenure_memory_bytes" + labels)) continue;
        sum += value;
        ++states;
      }
      EXPECT_EQ(states, 10);
      EXPECT_EQ(sum, series.at("tenure_arena_capacity_bytes" + labels + "}"));
    }
  }

  ReloadLog reloads_;
  const Metrics metrics_{*store_, sessions_, rpcs_, reloads_, planner_, MetricsOptions{}};
};

TEST_F(MetricsTest, AllSeriesExistFromTheStart) {
  const auto before = Scrape(metrics_);
  for (const char* name : {"tenure_build_info",
                           "tenure_memory_bytes",
                           "tenure_arena_capacity_bytes",
                           "tenure_arena_reserved_bytes",
                           "tenure_arena_allocated_bytes",
                           "tenure_arena_requested_bytes",
                           "tenure_arena_largest_free_bytes",
                           "tenure_arena_lost_bytes",
                           "tenure_arena_fragmentation_ratio",
                           "tenure_models",
                           "tenure_plans_total",
                           "tenure_plan_seconds",
                           "tenure_plan_cache_bytes",
                           "tenure_loads_total",
                           "tenure_load_failures_total",
                           "tenure_load_duration_seconds",
                           "tenure_reclaims_total",
                           "tenure_copied_bytes_total",
                           "tenure_leases",
                           "tenure_leases_granted_total",
                           "tenure_leases_released_total",
                           "tenure_leases_expired_total",
                           "tenure_leases_lost_total",
                           "tenure_recalls_total",
                           "tenure_recalls_unanswered_total",
                           "tenure_pools",
                           "tenure_buffers",
                           "tenure_buffer_requests_waiting",
                           "tenure_buffers_granted_total",
                           "tenure_buffers_released_total",
                           "tenure_buffer_wait_duration_seconds",
                           "tenure_refusals_total",
                           "tenure_pool_segments_granted_total",
                           "tenure_pools_expired_total",
                           "tenure_pools_lost_total",
                           "tenure_pool_recalls_total",
                           "tenure_pool_recalls_unanswered_total",
                           "tenure_sessions",
                           "tenure_clients_lost_total",
                           "tenure_device_foreign_bytes",
                           "tenure_device_lost",
                           "tenure_backend_segments_created_total",
                           "tenure_backend_segments_destroyed_total",
                           "tenure_backend_exports_total",
                           "tenure_segments",
                           "tenure_arena_peak_reserved_bytes",
                           "tenure_arena_peak_allocated_bytes",
                           "tenure_ownership_transfers_total",
                           "tenure_load_queue_length",
                           "tenure_loads_running",
                           "tenure_load_phase_duration_seconds",
                           "tenure_rpcs_total",
                           "tenure_rpc_duration_seconds",
                           "process_start_time_seconds",
                           "process_cpu_seconds_total",
                           "process_resident_memory_bytes",
                           "process_open_fds",
                           "process_max_fds",
                           "process_threads"}) {
    const auto first = before.lower_bound(std::string(name) + "{");
    EXPECT_TRUE(first != before.end() && first->first.starts_with(std::string(name) + "{")) << name;
  }
  Load(RequestFor("a", KiB(20), 1));
  v1::LoadModelRequest too_big = RequestFor("b", MiB(1), 1);
  v1::LoadModelResponse response;
  EXPECT_EQ(ReasonOf(models_->LoadModel(Call().get(), too_big, &response)), "CAPACITY");
  const auto after = Scrape(metrics_);
  EXPECT_EQ(before.size(), after.size());
}

TEST_F(MetricsTest, TellsWhatHappenedAndBalances) {
  ExpectBalance();
  v1::LoadModelRequest request = RequestFor("a", Bytes(20'000), 1);
  request.set_acquire(true);
  Load(request);
  ExpectBalance();
  const auto series = Scrape(metrics_);
  EXPECT_EQ(series.at("tenure_memory_bytes{device=host:0,arena=weights,state=leased}"), 20'000);
  EXPECT_EQ(series.at("tenure_models{device=host:0,state=ACTIVE}"), 1);
  EXPECT_EQ(series.at("tenure_loads_total{device=host:0,reuse=FRESH,result=ok}"), 1);
  EXPECT_EQ(series.at("tenure_load_duration_seconds{device=host:0,reuse=FRESH}"), 1);
  EXPECT_EQ(series.at("tenure_copied_bytes_total{device=host:0,source=file}"), 20'000);
  EXPECT_EQ(series.at("tenure_leases{device=host:0}"), 1);
  EXPECT_EQ(series.at("tenure_leases_granted_total{device=host:0}"), 1);
  EXPECT_EQ(series.at("tenure_sessions{state=LIVE}"), 1);
  EXPECT_EQ(series.at("tenure_backend_segments_created_total{device=host:0}"), 2);
}

// field case 2
TEST_F(MetricsTest, ARefusalIsCountedUnderTheReasonThatWasAnswered) {
  // The reason, and the buffer if it was granted.
  const auto acquire = [this](const std::string& token, Bytes size, Duration wait = {}) {
    v1::AcquireBuffersRequest request;
    request.add_buffers()->set_size(size.count());
    *request.mutable_wait() = ToProto(wait);
    v1::AcquireBuffersResponse response;
    const grpc::Status status = leases_->AcquireBuffers(Call(token).get(), request, &response);
    const bool granted = response.buffers_size() == 1;
    return std::pair(ReasonOf(status), granted ? response.buffers(0).buffer_id() : 0);
  };
  const auto release = [this](const std::string& token, uint64_t buffer) {
    v1::ReleaseBuffersRequest request;
    request.mutable_buffers()->add_buffer_ids(buffer);
    v1::ReleaseBuffersResponse response;
    EXPECT_TRUE(leases_->ReleaseBuffers(Call(token).get(), request, &response).ok());
  };
  const std::string other = OpenSession();
  EXPECT_EQ(acquire(token_, KiB(257)).first, "CAPACITY");
  device_->FailCreation(1);
  EXPECT_EQ(acquire(token_, KiB(16)).first, "BACKEND");

  // Somebody waits for all of it, so that whoever comes later gets nothing before.
  const uint64_t most = acquire(token_, KiB(160)).second;
  auto patient = std::async(std::launch::async,
                            [&] { return acquire(other, KiB(256), std::chrono::hours(1)); });
  ASSERT_TRUE(Comes([this] { return store_->runtimes()[0]->TakeSnapshot().waiting == 1; }));
  const SessionIdentity identity{.program = "hasty", .instance = "0", .uid = 0, .gid = 0, .pid = 0};
  const PoolRequest hasty{.session = store_->OpenSession(identity),
                          .wanted = std::vector<BufferSpec>{{.size = KiB(16)}}};
  CallLimits over;
  over.deadline = clock_.Now();
  const Status late = store_->runtimes()[0]->Acquire(hasty, over).status();
  EXPECT_TRUE(HasReason(late, Reason::kReclaimPending)) << late;
  release(token_, most);
  const auto [granted, all] = patient.get();
  ASSERT_EQ(granted, "OK");
  release(other, all);

  std::vector<uint64_t> pieces;
  for (int i = 0; i < 16; ++i) pieces.push_back(acquire(token_, KiB(16)).second);
  EXPECT_EQ(acquire(other, KiB(16)).first, "HELD_BY_LEASES");
  for (size_t i = 0; i < pieces.size(); i += 2) release(token_, pieces[i]);
  EXPECT_EQ(acquire(token_, KiB(32)).first, "FRAGMENTED");

  const auto series = Scrape(metrics_);
  for (const std::string reason :
       {"CAPACITY", "BACKEND", "HELD_BY_LEASES", "FRAGMENTED", "RECLAIM_PENDING"}) {
    const std::string labels = "{device=host:0,arena=runtime,reason=" + reason + "}";
    EXPECT_EQ(series.at("tenure_refusals_total" + labels), 1) << reason;
  }
}

TEST_F(MetricsTest, PeaksStayUntilTheyAreForgotten) {
  const auto peak = [this](const std::string& name, const std::string& arena) {
    return Scrape(metrics_).at("tenure_arena_peak_" + name + "_bytes{device=host:0,arena=" + arena +
                               "}");
  };
  v1::LoadModelRequest load = RequestFor("a", KiB(20), 1);
  load.mutable_retain_ttl();
  Load(load);
  v1::AcquireBuffersRequest acquire;
  acquire.add_buffers()->set_size(KiB(40).count());
  v1::AcquireBuffersResponse granted;
  ASSERT_TRUE(leases_->AcquireBuffers(Call().get(), acquire, &granted).ok());
  v1::ReleaseBuffersRequest release;
  release.mutable_buffers()->add_buffer_ids(granted.buffers(0).buffer_id());
  v1::ReleaseBuffersResponse released;
  ASSERT_TRUE(leases_->ReleaseBuffers(Call().get(), release, &released).ok());
  v1::UnloadModelRequest unload;
  unload.set_name("a");
  v1::UnloadModelResponse unloaded;
  ASSERT_TRUE(models_->UnloadModel(Call().get(), unload, &unloaded).ok());

  EXPECT_EQ(peak("allocated", "weights"), KiB(20).count());
  EXPECT_EQ(peak("reserved", "weights"), KiB(20).count());
  // The segments on their way, which are as many as the buffer needs.
  EXPECT_EQ(peak("allocated", "runtime"), KiB(64).count());
  EXPECT_EQ(peak("reserved", "runtime"), KiB(64).count());
  store_->devices()[0]->ForgetPeaks();
  store_->runtimes()[0]->ForgetPeaks();
  EXPECT_EQ(peak("allocated", "weights"), 0);
  EXPECT_EQ(peak("reserved", "weights"), KiB(20).count());
  EXPECT_EQ(peak("allocated", "runtime"), 0);
}

TEST_F(MetricsTest, CallsAreCountedByMethodAndCode) {
  Load(RequestFor("a", KiB(4), 1));
  v1::GetModelRequest request;
  request.set_name("b");
  v1::Model model;
  EXPECT_EQ(ReasonOf(models_->GetModel(Call().get(), request, &model)), "MODEL_NOT_FOUND");
  // The server counts a call once its reply is on its way.
  ASSERT_TRUE(Comes([this] {
    const auto series = Scrape(metrics_);
    return series.at("tenure_rpcs_total{method=LoadModel,code=OK}") == 1 &&
           series.at("tenure_rpcs_total{method=GetModel,code=NOT_FOUND}") == 1;
  }));
  const auto series = Scrape(metrics_);
  EXPECT_EQ(series.at("tenure_rpc_duration_seconds{method=LoadModel}"), 1);
  EXPECT_EQ(series.at("tenure_rpcs_total{method=other,code=OK}"), 0);
}

TEST_F(MetricsTest, TheLargestModelsAreNamedOnlyIfAskedFor) {
  for (int i = 0; i < 40; ++i) {
    Load(RequestFor("model-" + std::to_string(i), KiB(i < 8 ? 8 : 4), static_cast<uint32_t>(i)));
  }
  const auto named = [](const Metrics& metrics) {
    std::map<std::string, double> series = Scrape(metrics);
    std::erase_if(series,
                  [](const auto& each) { return !each.first.starts_with("tenure_model_bytes{"); });
    return series;
  };
  EXPECT_TRUE(named(metrics_).empty());
  const auto models =
      named(Metrics(*store_, sessions_, rpcs_, reloads_, planner_, {.model_bytes = true}));
  EXPECT_EQ(models.size(), 32U);
  EXPECT_EQ(models.at("tenure_model_bytes{device=host:0,model=model-7@1}"), KiB(8).count());
}

// field case 37
TEST_F(MetricsTest, ScrapesWhileModelsComeAndGoShowOnlyWhatIsThereAndCountersThatRise) {
  const Metrics named(*store_, sessions_, rpcs_, reloads_, planner_, {.model_bytes = true});
  std::atomic<bool> over = false;
  std::thread churn([&] {
    for (int i = 0; i < 50; ++i) {
      v1::LoadModelRequest load = RequestFor("model-" + std::to_string(i), KiB(8), 1);
      load.mutable_retain_ttl();
      Load(load);
      Unload(load.name());
    }
    over.store(true);
  });
  std::map<std::string, double> highest;
  uint64_t scrapes = 0;
  while (!over.load() || scrapes == 0) {
    ++scrapes;
    for (const prometheus::MetricFamily& family : named.Collect()) {
      if (family.type != prometheus::MetricType::Counter) continue;
      for (const prometheus::ClientMetric& metric : family.metric) {
        std::string key = family.name;
        for (const auto& label : metric.label) key += "," + label.value;
        EXPECT_GE(metric.counter.value, highest[key]) << key;
        highest[key] = metric.counter.value;
      }
    }
  }
  churn.join();
  for (const auto& [key, value] : Scrape(named)) {
    EXPECT_FALSE(key.starts_with("tenure_model_bytes{")) << key;
  }
  EXPECT_EQ(Scrape(named).at("tenure_loads_total{device=host:0,reuse=RECYCLED,result=ok}") +
                Scrape(named).at("tenure_loads_total{device=host:0,reuse=FRESH,result=ok}"),
            50);
}

TEST_F(MetricsTest, LoadsThatCopyTellTheirPhases) {
  const v1::LoadModelRequest request = RequestFor("a", KiB(4), 1);
  Load(request);
  Load(request);
  const auto series = Scrape(metrics_);
  for (const std::string phase : {"open", "parse", "place", "read", "copy", "publish"}) {
    EXPECT_EQ(series.at("tenure_load_phase_duration_seconds{device=host:0,phase=" + phase + "}"), 1)
        << phase;
  }
}

TEST_F(MetricsTest, BucketsOfAHistogramAreCumulative) {
  Load(RequestFor("a", KiB(4), 1));
  for (const prometheus::MetricFamily& family : metrics_.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      uint64_t last = 0;
      for (const auto& bucket : metric.histogram.bucket) {
        EXPECT_GE(bucket.cumulative_count, last);
        last = bucket.cumulative_count;
      }
      EXPECT_EQ(last, metric.histogram.sample_count);
    }
  }
}

}  // namespace
}  // namespace tenure
