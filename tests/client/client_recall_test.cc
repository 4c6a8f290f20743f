// The daemon wants memory back that a client has mapped.

#include <chrono>
#include <gtest/gtest.h>
#include <string>

#include "tenure/client.h"
#include "tests/client/model_files.h"
#include "tests/support/daemon_process.h"

namespace tenure {
namespace {

// Room for one model of 40 MiB, not for two.
class ClientRecallTest : public ::testing::Test {
 protected:
  ClientRecallTest()
      : file_a_(WriteModel(daemon_, "a", 40)), file_b_(WriteModel(daemon_, "b", 44, 2)) {}

  Client Connect() {
    return *Client::Connect({.directory = daemon_.directory(), .program = "test"});
  }
  client::ArenaLedger Weights(const Client& client) {
    return client.Status()->devices.at(0).arenas.at(0);
  }

  DaemonProcess daemon_{DaemonSettings{.capacity = "64MiB"}};
  const ModelFile file_a_;
  const ModelFile file_b_;
};

TEST_F(ClientRecallTest, AnIdleMappingIsGivenBackAndFetchedAnewWhenItIsNeeded) {
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", file_a_);
  ASSERT_TRUE(lease.Release().ok());
  EXPECT_EQ(client.mapped_region_count(), 1u);
  ASSERT_TRUE(client.Unload("a").ok());

  // The load that needs the room acquires, and comes from the very client that has to answer.
  auto b = client.Load({.name = "b", .path = file_b_.path, .acquire = true});
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->reclaimed.size(), 1u);
  EXPECT_EQ(client.mapped_region_count(), 1u);
  EXPECT_EQ(Difference(*b->lease, file_b_), "");
  EXPECT_EQ(Weights(client).quarantined, 0u);

  ASSERT_TRUE(b->lease->Release().ok());
  ASSERT_TRUE(client.Unload("b").ok());
  const auto again = client.Load({.name = "a", .path = file_a_.path, .acquire = true});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Difference(*again->lease, file_a_), "");
}

TEST_F(ClientRecallTest, AMappingInUseIsKeptAndTheLoadRefused) {
  const Client client = Connect();
  const auto a = client.Load({.name = "a", .path = file_a_.path, .acquire = true});
  ASSERT_TRUE(a.ok()) << a.status();
  const auto b =
      client.Load({.name = "b", .path = file_b_.path}, {.timeout = std::chrono::seconds(2)});
  EXPECT_FALSE(b.ok());
  EXPECT_EQ(ErrorReason(b.status()), "HELD_BY_LEASES") << b.status();
  EXPECT_TRUE(a->lease->valid());
  EXPECT_EQ(Difference(*a->lease, file_a_), "");
}

TEST_F(ClientRecallTest, AnAdoptedRegionIsReadThroughTheMappingThatIsThere) {
  const ModelFile successor = WriteModel(daemon_, "a2", 40, 3);
  const Client client = Connect();
  WeightLease lease = LoadAndLease(client, "a", file_a_);
  const std::byte* const base = lease.base();
  const uint64_t generation = lease.generation();
  ASSERT_TRUE(lease.Release().ok());
  ASSERT_TRUE(client.Unload("a").ok());
  const uint64_t exports = client.Status()->devices.at(0).backend_counters.exports;

  const auto adopted = client.Load({.name = "a2", .path = successor.path, .acquire = true});
  ASSERT_TRUE(adopted.ok()) << adopted.status();
  EXPECT_EQ(adopted->reuse, client::Reuse::kAdopted);
  EXPECT_EQ(adopted->lease->base(), base);
  EXPECT_GT(adopted->lease->generation(), generation);
  EXPECT_EQ(client.Status()->devices.at(0).backend_counters.exports, exports);
  EXPECT_EQ(Difference(*adopted->lease, successor), "");
}

TEST_F(ClientRecallTest, ClientsThatMapTheSameModelAllAnswer) {
  const Client first = Connect();
  const Client second = Connect();
  ASSERT_TRUE(first.Load({.name = "a", .path = file_a_.path}).ok());
  ASSERT_TRUE(first.Acquire({.name = "a"})->Release().ok());
  ASSERT_TRUE(second.Acquire({.name = "a"})->Release().ok());
  ASSERT_TRUE(first.Unload("a").ok());
  const auto b = first.Load({.name = "b", .path = file_b_.path});
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(first.mapped_region_count(), 0u);
  EXPECT_EQ(second.mapped_region_count(), 0u);
}

}  // namespace
}  // namespace tenure
