#include "tests/bench/lease_figures.h"

#include <barrier>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <tenure/v1/buffer.pb.h>
#include <thread>
#include <vector>

#include "tests/bench/baselines.h"
#include "tests/bench/session_calls.h"
#include "tests/e2e/tenured.h"

namespace tenure::bench {
namespace {

constexpr int kCallsPerRound = 100;
constexpr uint64_t kBufferBytes = 64 << 10;

// One client's calls.
class Client {
 public:
  explicit Client(const std::string& directory) : calls_(directory, "buffers-bench") {
    request_.add_buffers()->set_size(kBufferBytes);
    // The pool has grown before anything is measured.
    for (int i = 0; i < kCallsPerRound; ++i) Acquire();
    ReleaseAll();
  }

  void Empty() { calls_.Empty(); }
  void Acquire() {
    v1::AcquireBuffersResponse response;
    calls_.Call(&v1::LeaseService::Stub::AcquireBuffers, request_, response);
    held_.push_back(response.buffers(0).buffer_id());
  }
  void ReleaseAll() {
    v1::ReleaseBuffersRequest request;
    for (const uint64_t id : held_) request.mutable_buffers()->add_buffer_ids(id);
    v1::ReleaseBuffersResponse response;
    calls_.Call(&v1::LeaseService::Stub::ReleaseBuffers, request, response);
    if (response.unreleased_size() > 0) throw std::runtime_error("a buffer was not released");
    held_.clear();
  }

 private:
  const SessionCalls calls_;
  v1::AcquireBuffersRequest request_;
  std::vector<uint64_t> held_;
};

// Every client makes the call at the same time, again and again. Adds the duration of each call,
// and the calls that all made in a second.
template <typename Call>
void MeasureAll(std::vector<std::unique_ptr<Client>>& clients, const Call& call, Samples& durations,
                Samples& per_second) {
  std::vector<Samples> samples(clients.size());
  std::vector<std::vector<double>> each(clients.size());
  std::barrier start(static_cast<std::ptrdiff_t>(clients.size() + 1));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < clients.size(); ++i) {
    threads.emplace_back([&, i] {
      start.arrive_and_wait();
      for (int k = 0; k < kCallsPerRound; ++k) {
        each[i].push_back(Microseconds(TimeOf([&] { call(*clients[i]); })));
      }
    });
  }
  start.arrive_and_wait();
  const auto all = TimeOf([&] {
    for (std::thread& thread : threads) thread.join();
  });
  for (const std::vector<double>& one : each) {
    for (const double duration : one) durations.Add(duration);
  }
  per_second.Add(static_cast<double>(clients.size() * kCallsPerRound) * 1e6 / Microseconds(all));
}

}  // namespace

void AddLeaseFigures(int rounds, Report& report) {
  const Tenured daemon({.capacity = "16MiB",
                        .runtime = "1024MiB",
                        .runtime_segment_size = "8MiB",
                        .log_level = "error"});
  for (const size_t count : {size_t{1}, size_t{16}, size_t{64}}) {
    std::vector<std::unique_ptr<Client>> clients;
    for (size_t i = 0; i < count; ++i) {
      clients.push_back(std::make_unique<Client>(daemon.directory()));
    }
    Samples acquire, empty, acquires_per_second, empties_per_second;
    for (int round = 0; round < rounds; ++round) {
      MeasureAll(
          clients, [](Client& client) { client.Empty(); }, empty, empties_per_second);
      MeasureAll(
          clients, [](Client& client) { client.Acquire(); }, acquire, acquires_per_second);
      for (const auto& client : clients) client->ReleaseAll();
    }
    const std::string number = std::to_string(count);
    report.Add("acquire_" + number + "_us", acquire);
    report.Add("empty_unary_" + number + "_us", empty);
    report.Add("acquire_" + number + "_per_s", acquires_per_second.Median());
    report.Add("empty_unary_" + number + "_per_s", empties_per_second.Median());
    report.AddGoal(number + " clients: acquire over empty call, p50",
                   acquire.Median() / empty.Median(), 1.15);
    report.AddGoal(number + " clients: empty calls per second over acquires",
                   empties_per_second.Median() / acquires_per_second.Median(), 1 / 0.9);
  }
}

}  // namespace tenure::bench
