#pragma once

#include <optional>
#include <string>

#include "tenure/client.h"
#include "tests/bench/baselines.h"
#include "tests/bench/bench_model.h"
#include "tests/e2e/tenured.h"
#include "tests/gpu/trial/part.h"

namespace tenure::trial {

// The most bytes that the padding between the tensors of a BenchModel takes.
inline constexpr Bytes kMostPadding = MiB(2);

// A daemon on the first GPU, two models of one architecture and other bytes on its disk, and a
// client. Memory that nobody retains goes back to the driver at once. Everything throws
// std::runtime_error if it fails. Thread-compatible.
class ServedModels {
 public:
  struct Options {
    Bytes payload;  // of each model
    Bytes capacity;
    Bytes runtime = {};
    int copy_threads = 2;
  };
  explicit ServedModels(const Options& options);

  const Tenured& daemon() const { return daemon_; }
  const Client& client() const { return client_; }
  const bench::BenchModel& a() const { return a_; }
  const bench::BenchModel& b() const { return b_; }
  Bytes payload() const { return a_.payload(); }

  // Loads and leases; what came is of no other kind than `expected`.
  client::LoadResult Load(const bench::BenchModel& model, client::Reuse expected,
                          const client::Retention& retention = {}) const;
  // The same, and the refusal if it was refused.
  absl::StatusOr<client::LoadResult> TryLoad(const bench::BenchModel& model,
                                             const client::Retention& retention = {}) const;
  void Unload(const bench::BenchModel& model) const;
  // Ends the lease, and unloads its model.
  void GiveUp(client::LoadResult& loaded, const bench::BenchModel& model) const;
  // Returns once neither the daemon nor the client holds memory of the device.
  void AwaitNothingHeld() const;

 private:
  Tenured daemon_;
  const Client client_;
  const bench::BenchModel a_;
  const bench::BenchModel b_;
};

inline constexpr client::Retention kNotRetained = std::chrono::nanoseconds(0);

}  // namespace tenure::trial
