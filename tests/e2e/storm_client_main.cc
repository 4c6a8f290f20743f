// storm-client DIRECTORY MODELS COUNTS SEED: loads, leases, reads, releases and unloads random
// models for as long as it lives, and checks every byte that it has mapped. When the daemon dies it
// goes on with the next one, and keeps reading what the last one lent; that such a lease is worth
// nothing any more is checked too. Ends with 3 for a wrong byte, 4 for an answer that should not
// be, 5 for an old lease that was taken for a live one.

#include <chrono>
#include <fcntl.h>
#include <iostream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/unique_fd.h"
#include "tenure/client.h"
#include "tests/client/eventually.h"
#include "tests/e2e/model_image.h"
#include "tests/e2e/storm_models.h"

namespace tenure {
namespace {

constexpr size_t kMostHeld = 3;
constexpr int kConnectTries = 1000;
constexpr auto kPoll = std::chrono::milliseconds(5);

enum Fault { kWrongBytes = 3, kWrongAnswer = 4, kStaleAccepted = 5 };

// Ends the program.
struct Outcome {
  Fault fault;
  std::string words;
};

StormCounts& MapCounts(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  void* const base =
      mmap(nullptr, sizeof(StormCounts), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) throw std::runtime_error("cannot map " + path);
  return *static_cast<StormCounts*>(base);
}

// What a daemon may answer when many clients want the same little room.
bool IsRefusal(const absl::Status& status) {
  static const std::set<std::string> kReasons = {"MODEL_NOT_FOUND", "MODEL_DRAINING",
                                                 "MODEL_UNAVAILABLE", "CAPACITY", "HELD_BY_LEASES"};
  return kReasons.contains(ErrorReason(status));
}

class StormClient {
 public:
  StormClient(std::string directory, const std::string& models, const std::string& counts,
              uint64_t seed)
      : directory_(std::move(directory)),
        counts_(MapCounts(counts)),
        random_(seed),
        client_(Connect()),
        boot_id_(client_.boot_id()) {
    for (int i = 0; i < kStormModels; ++i) {
      paths_.push_back(models + "/" + StormName(i) + ".safetensors");
      images_.emplace_back(paths_.back(), GenerateModel(StormParameters(i)));
    }
  }

  void Step() {
    const int model = Pick(kStormModels);
    switch (Pick(8)) {
      case 0:
      case 1:
      case 2:
        return Load(model);
      case 3:
      case 4:
        return Acquire(model);
      case 5:
        return Unload(model);
      default:
        return Release();
    }
  }

 private:
  struct Held {
    int model;
    WeightLease lease;
  };

  int Pick(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }

  Client Connect() const {
    for (int i = 0; i < kConnectTries; ++i) {
      absl::StatusOr<Client> client =
          Client::Connect({.directory = directory_, .program = "storm-client"});
      if (client.ok()) return *std::move(client);
      if (!client::IsUnreachable(client.status())) {
        throw Outcome{kWrongAnswer, client.status().ToString()};
      }
      std::this_thread::sleep_for(kPoll);
    }
    throw Outcome{kWrongAnswer, "nobody serves"};
  }

  void Load(int model) {
    client::LoadRequest request{
        .name = StormName(model), .path = paths_[static_cast<size_t>(model)], .acquire = true};
    if (Pick(2) == 0) request.retention = std::chrono::nanoseconds(0);
    auto loaded = client_.Load(request);
    LookForAnotherBoot();
    if (!loaded.ok()) return Note(loaded.status());
    Hold(model, *std::move(loaded->lease));
  }

  void Acquire(int model) {
    auto lease = client_.Acquire({.name = StormName(model)});
    LookForAnotherBoot();
    if (!lease.ok()) return Note(lease.status());
    Hold(model, *std::move(lease));
  }

  void Unload(int model) {
    const absl::Status status = client_.Unload(StormName(model)).status();
    LookForAnotherBoot();
    Note(status);
  }

  void Hold(int model, WeightLease lease) {
    held_.push_back({model, std::move(lease)});
    Check(held_.back());
    if (held_.size() > kMostHeld) Release();
  }

  void Release() {
    if (held_.empty()) return;
    const auto which = held_.begin() + Pick(static_cast<int>(held_.size()));
    Check(*which);
    const bool valid = which->lease.valid();
    const std::string lost = which->lease.lost_reason();
    const absl::Status released = which->lease.Release();
    held_.erase(which);
    if (!released.ok()) return Note(released);
    if (!valid) throw Outcome{kWrongAnswer, "a lease was lost: " + lost};
  }

  void Check(const Held& held) {
    counts_.checks.fetch_add(1);
    const std::string difference = images_[static_cast<size_t>(held.model)].Difference(held.lease);
    if (difference.empty()) return;
    counts_.wrong_bytes.fetch_add(1);
    throw Outcome{kWrongBytes, StormName(held.model) + ": " + difference};
  }

  void Note(const absl::Status& status) {
    if (status.ok()) return;
    if (IsRefusal(status)) {
      counts_.refusals.fetch_add(1);
    } else if (client::IsUnreachable(status) || ErrorReason(status) == "STALE_INCARNATION") {
      std::this_thread::sleep_for(kPoll);
    } else {
      throw Outcome{kWrongAnswer, status.ToString()};
    }
  }

  // To be called after every call, before a lease that it granted is held: the daemon may be
  // another one. What the last one lent stays as it is, what it promised is worth nothing.
  void LookForAnotherBoot() {
    if (client_.boot_id() == boot_id_) return;
    boot_id_ = client_.boot_id();
    counts_.reconnects.fetch_add(1);
    for (Held& held : orphans_) {
      Check(held);
      if (held.lease.Release().ok()) ThrowStale("an old lease was released");
    }
    orphans_ = std::exchange(held_, {});
    for (const Held& held : orphans_) {
      Check(held);
      if (!Eventually([&] { return !held.lease.valid(); })) ThrowStale("an old lease is valid");
    }
  }

  [[noreturn]] void ThrowStale(const std::string& words) const {
    counts_.stale_accepted.fetch_add(1);
    throw Outcome{kStaleAccepted, words};
  }

  const std::string directory_;
  StormCounts& counts_;
  std::mt19937_64 random_;
  std::vector<std::string> paths_;
  std::vector<ModelImage> images_;
  const Client client_;
  std::string boot_id_;
  std::vector<Held> held_;
  std::vector<Held> orphans_;  // of the boot before
};

}  // namespace
}  // namespace tenure

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  try {
    tenure::StormClient client(argv[1], argv[2], argv[3], std::stoull(argv[4]));
    while (true) client.Step();
  } catch (const tenure::Outcome& outcome) {
    std::cerr << outcome.words << std::endl;
    return outcome.fault;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
