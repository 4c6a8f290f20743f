#include "tests/e2e/storm.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <new>
#include <signal.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "core/base/unique_fd.h"
#include "tests/client/eventually.h"
#include "tests/e2e/models.h"

namespace tenure {
namespace {

// How long the next victim may still live.
constexpr int kMostMsBetweenKills = 25;

StormCounts* MakeCounts(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (ftruncate(fd.get(), sizeof(StormCounts)) != 0)
    throw std::runtime_error("cannot make " + path);
  void* const base =
      mmap(nullptr, sizeof(StormCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return new (base) StormCounts();
}

bool HasEnded(pid_t pid) {
  siginfo_t state{};
  return waitid(P_PID, static_cast<id_t>(pid), &state, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         state.si_pid != 0;
}

}  // namespace

uint64_t FromEnvironment(const char* variable, uint64_t otherwise) {
  const char* const value = getenv(variable);
  return value != nullptr ? std::stoull(value) : otherwise;
}

Storm::Storm(const Tenured& daemon, size_t clients, uint64_t seed)
    : daemon_(daemon), counts_(MakeCounts(temp_ / "counts")), random_(seed), clients_(clients) {
  for (int i = 0; i < kStormModels; ++i) {
    WriteModel(daemon, StormName(i), StormParameters(i), static_cast<uint64_t>(i) + 1);
  }
  Refill();
}

Storm::~Storm() {
  clients_.clear();
  munmap(counts_, sizeof(StormCounts));
}

pid_t Storm::KillOne() {
  Pause(kMostMsBetweenKills);
  size_t place = random_() % clients_.size();
  while (clients_[place] == nullptr) place = (place + 1) % clients_.size();
  const pid_t pid = clients_[place]->pid();
  KillAt(place);
  return pid;
}

void Storm::KillAll() {
  for (size_t place = 0; place < clients_.size(); ++place) {
    if (clients_[place] != nullptr) KillAt(place);
  }
}

void Storm::Refill() {
  for (size_t place = 0; place < clients_.size(); ++place) {
    if (clients_[place] == nullptr) StartAt(place);
  }
}

void Storm::ExpectAllAlive() const {
  for (const auto& client : clients_) {
    if (client == nullptr || !HasEnded(client->pid())) continue;
    const int status = client->Wait();
    throw std::runtime_error("a client ended with " + std::to_string(status) + ": " +
                             client->Err());
  }
}

void Storm::Pause(int most_ms) {
  const std::chrono::microseconds pause(random_() % (static_cast<uint64_t>(most_ms) * 1000));
  std::this_thread::sleep_for(pause);
}

void Storm::AwaitChecks(uint64_t more) const {
  const uint64_t until = counts_->checks + more;
  const bool reached = Eventually([&] {
    ExpectAllAlive();
    return counts_->checks >= until;
  });
  if (!reached) throw std::runtime_error("the clients do not get on");
}

void Storm::StartAt(size_t place) {
  clients_[place] = std::make_unique<Program>(
      std::vector<std::string>{STORM_CLIENT_PATH, daemon_.directory(), daemon_.ModelPath("."),
                               temp_ / "counts", std::to_string(random_())},
      temp_ / std::to_string(place));
}

void Storm::KillAt(size_t place) {
  Program& client = *clients_[place];
  kill(client.pid(), SIGKILL);
  if (const int status = client.Wait(); status != -1) {
    throw std::runtime_error("a client ended with " + std::to_string(status) + ": " + client.Err());
  }
  clients_[place].reset();
}

}  // namespace tenure
