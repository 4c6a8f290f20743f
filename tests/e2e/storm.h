#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/client/program.h"
#include "tests/e2e/storm_models.h"
#include "tests/e2e/tenured.h"
#include "tests/support/temp_dir.h"

namespace tenure {

// A number that whoever runs a test may set in the environment.
uint64_t FromEnvironment(const char* variable, uint64_t otherwise);

// Clients in processes of their own that load, lease and check random models of one daemon until
// they are killed; see storm_client_main.cc. Throws std::runtime_error, with the client's words, if
// one ended by itself, which it does when it saw something wrong. Thread-compatible.
class Storm {
 public:
  // Writes the models and starts the clients. The daemon outlives the storm.
  Storm(const Tenured& daemon, size_t clients, uint64_t seed);
  ~Storm();
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

  // Kills a random client after a random time and waits for its end; its process id.
  // REQUIRES: one lives.
  pid_t KillOne();
  void KillAll();
  // Starts clients in place of those that were killed.
  void Refill();
  // Throws if one has ended.
  void ExpectAllAlive() const;
  // Waits a random time, shorter than `most_ms`.
  void Pause(int most_ms);
  // Returns once the clients have checked leases so many times more.
  void AwaitChecks(uint64_t more) const;

  // A file of the storm, by the number of the model.
  std::string Path(int model) const { return daemon_.ModelPath(StormName(model) + ".safetensors"); }
  const StormCounts& counts() const { return *counts_; }

 private:
  void StartAt(size_t place);
  void KillAt(size_t place);

  const Tenured& daemon_;
  const TempDir temp_;
  StormCounts* const counts_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Program>> clients_;
};

}  // namespace tenure
