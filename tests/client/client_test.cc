// The client against a daemon: leases, mappings, and what is released when.

#include "tenure/client.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "tests/client/eventually.h"
#include "tests/client/model_files.h"
#include "tests/support/daemon_process.h"

namespace tenure {
namespace {

using std::chrono::milliseconds;

uint64_t Exports(const Client& client) {
  return client.Status()->devices.at(0).backend_counters.exports;
}

class ClientTest : public ::testing::Test {
 protected:
  Client Connect(const std::string& program = "test") {
    return *Client::Connect({.directory = daemon_.directory(), .program = program});
  }

  DaemonProcess daemon_{DaemonSettings{}};
};

TEST_F(ClientTest, ALeaseShowsEveryTensorOfTheFile) {
  const ModelFile file = WriteModel(daemon_, "a", 24);
  const Client client = Connect();
  const auto loaded = client.Load({.name = "a", .path = "models/a.safetensors"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->reuse, client::Reuse::kFresh);
  const auto lease = client.Acquire({.name = "a"});
  ASSERT_TRUE(lease.ok()) << lease.status();
  EXPECT_TRUE(lease->valid());
  EXPECT_EQ(lease->lost_reason(), "");
  EXPECT_EQ(Difference(*lease, file), "");
  EXPECT_EQ(lease->architecture_key(), loaded->model.architecture_key);
  EXPECT_FALSE(lease->Find("no such tensor").has_value());

  std::vector<std::string> names;
  for (const client::Tensor& tensor : *lease) {
    names.emplace_back(tensor.name);
    EXPECT_GE(tensor.bytes.data(), lease->base());
  }
  EXPECT_EQ(names.size(), file.specs.size());
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
}

TEST_F(ClientTest, ALeaseSaysWhereItsMemoryLiesAndGivesItsBytes) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  const WeightLease lease = LoadAndLease(client, "a", file);
  EXPECT_EQ(lease.memory_kind(), MemoryKind::kHost);
  EXPECT_EQ(lease.device_uuid(), client.Status()->devices.at(0).uuid);
  EXPECT_FALSE(lease.cuda_ordinal().has_value());
  for (const client::Tensor& tensor : lease) {
    EXPECT_EQ(lease.base() + tensor.offset, tensor.bytes.data());
    std::vector<std::byte> bytes(tensor.bytes.size());
    ASSERT_TRUE(lease.CopyToHost(tensor.offset, bytes).ok());
    EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), tensor.bytes.begin()));
  }
  std::byte byte{};
  EXPECT_EQ(lease.CopyToHost(lease.size_bytes(), {&byte, 1}).code(), absl::StatusCode::kOutOfRange);
}

TEST_F(ClientTest, ALoadCanReturnALease) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  auto loaded = client.Load({.name = "a", .path = file.path, .acquire = true});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ASSERT_TRUE(loaded->lease.has_value());
  EXPECT_EQ(Difference(*loaded->lease, file), "");
  EXPECT_EQ(client.Get("a")->holders.at(0).lease_count, 1u);
}

TEST_F(ClientTest, LeasingAgainTakesNoMemoryOverTheSocket) {
  const ModelFile file = WriteModel(daemon_, "a", 24);
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", file);
  const std::byte* const base = lease.base();
  const uint64_t exports = Exports(client);
  EXPECT_GT(exports, 0u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(lease.Release().ok());
    lease = *client.Acquire({.name = "a"});
    EXPECT_EQ(lease.base(), base);
  }
  EXPECT_EQ(Exports(client), exports);
  EXPECT_EQ(Difference(lease, file), "");
}

// One batch is 64 fds.
TEST_F(ClientTest, ARegionOfManySegmentsComesInSeveralBatches) {
  const DaemonProcess fine(DaemonSettings{.segment_size = "2MiB"});
  const ModelFile file = WriteModel(fine, "a", 150);
  const Client client = *Client::Connect({.directory = fine.directory(), .program = "test"});
  const WeightLease lease = LoadAndLease(client, "a", file);
  EXPECT_GT(Exports(client), 64u);
  EXPECT_EQ(Difference(lease, file), "");
}

TEST_F(ClientTest, ThreadsThatLeaseAtOnceShareOneMapping) {
  const ModelFile file = WriteModel(daemon_, "a", 64);
  const Client client = Connect();
  const auto loaded = client.Load({.name = "a", .path = file.path});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto lease = client.Acquire({.name = "a"});
      ASSERT_TRUE(lease.ok()) << lease.status();
      EXPECT_EQ(Difference(*lease, file), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Exports(client), loaded->segments_created);
  EXPECT_EQ(client.mapped_region_count(), 1u);
}

TEST_F(ClientTest, DroppingALeaseReleasesItBeforeTheNextCall) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  { const auto loaded = client.Load({.name = "a", .path = file.path, .acquire = true}); }
  EXPECT_TRUE(client.Get("a")->holders.empty());
  EXPECT_EQ(client.Unload("a")->deferred_bytes, 0u);
}

TEST_F(ClientTest, AMovedLeaseIsReleasedOnce) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  WeightLease first = LoadAndLease(client, "a", file);
  WeightLease second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT: what is left of it is specified
  EXPECT_EQ(first.lost_reason(), "RELEASED");
  EXPECT_TRUE(second.valid());
  second = *client.Acquire({.name = "a"});
  EXPECT_EQ(client.Get("a")->holders.at(0).lease_count, 1u);
}

TEST_F(ClientTest, ALeaseOutlivesItsClient) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  std::optional<Client> client = Connect();
  WeightLease lease = LoadAndLease(*client, "a", file);
  client.reset();
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(Difference(lease, file), "");
  EXPECT_TRUE(lease.Release().ok());
}

TEST_F(ClientTest, AClosedClientLeavesNothingBehind) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client observer = Connect("observer");
  {
    const Client client = Connect();
    const auto loaded = client.Load({.name = "a", .path = file.path, .acquire = true});
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }
  EXPECT_TRUE(Eventually([&] { return observer.Sessions()->size() == 1; }));
  EXPECT_EQ(observer.Status()->devices.at(0).arenas.at(0).quarantined, 0u);
}

TEST_F(ClientTest, RefusalsCarryReasonAndValues) {
  const Client client = Connect();
  const auto lease = client.Acquire({.name = "nobody"});
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ErrorReason(lease.status()), "MODEL_NOT_FOUND");

  WriteModel(daemon_, "huge", 300);
  const auto loaded = client.Load({.name = "huge", .path = "models/huge.safetensors"});
  EXPECT_EQ(ErrorReason(loaded.status()), "CAPACITY");
  EXPECT_FALSE(client::ErrorValues(loaded.status()).empty());
}

TEST_F(ClientTest, ACallThatADaemonNeverTookUpHoldsNothing) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  ASSERT_TRUE(client.Load({.name = "a", .path = file.path}).ok());
  daemon_.Pause();
  const auto lease = client.Acquire({.name = "a"}, {.timeout = milliseconds(50)});
  EXPECT_EQ(lease.status().code(), absl::StatusCode::kDeadlineExceeded) << lease.status();
  daemon_.Resume();
  EXPECT_TRUE(Eventually([&] { return client.Get("a")->holders.empty(); }));
  EXPECT_TRUE(client.Acquire({.name = "a"}).ok());
}

TEST_F(ClientTest, ACancelledCallReturnsAtOnce) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  ASSERT_TRUE(client.Load({.name = "a", .path = file.path}).ok());
  std::stop_source stop;
  const auto cancel = [&stop](const client::ModelEvent&) {
    stop.request_stop();
    return true;
  };
  const absl::Status status = client.Watch("a", "", cancel, {.cancel = stop.get_token()});
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled) << status;
}

TEST_F(ClientTest, AWatchTellsOfALoadAndEndsWithTheMemory) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  std::vector<client::ModelState> states;
  std::atomic<bool> seen_active = false;
  std::thread watcher([&] {
    const absl::Status status = client.Watch("a", "", [&](const client::ModelEvent& event) {
      if (event.model.state == client::ModelState::kActive) seen_active = true;
      if (states.empty() || states.back() != event.model.state) states.push_back(event.model.state);
      return true;
    });
    EXPECT_TRUE(status.ok()) << status;
  });
  ASSERT_TRUE(client.Load({.name = "a", .path = file.path, .retention = milliseconds(0)}).ok());
  EXPECT_TRUE(Eventually([&] { return seen_active.load(); }));
  EXPECT_TRUE(client.Unload("a").ok());
  watcher.join();
  ASSERT_FALSE(states.empty());
  EXPECT_EQ(states.back(), client::ModelState::kGone);
}

TEST_F(ClientTest, AForkedChildsClientSaysSo) {
  const ModelFile file = WriteModel(daemon_, "a", 8);
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", file);
  const pid_t child = fork();
  if (child == 0) {
    const bool right = !lease.valid() && lease.lost_reason() == "FORKED" &&
                       ErrorReason(client.List().status()) == "FORKED" &&
                       ErrorReason(lease.CopyToHost(0, {})) == "FORKED" &&
                       ErrorReason(lease.Release()) == "FORKED";
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(lease.valid());
  EXPECT_EQ(Difference(lease, file), "");
}

TEST_F(ClientTest, AnsweringHealthNeedsNoSession) {
  const auto serving = client::CheckHealth(daemon_.directory(), std::chrono::seconds(5));
  ASSERT_TRUE(serving.ok()) << serving.status();
  EXPECT_TRUE(*serving);
}

}  // namespace
}  // namespace tenure
