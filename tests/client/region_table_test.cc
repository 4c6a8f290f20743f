#include "client/cpp/region_table.h"

#include <gtest/gtest.h>

#include "client/cpp/host_mapping.h"

namespace tenure::client {
namespace {

using State = RegionTable::State;

constexpr uint64_t kBytes = uint64_t{2} << 20;

// A region that was used, fetched, and is in use still.
void Map(RegionTable& table, uint64_t region_id, uint64_t serial) {
  ASSERT_EQ(table.Use(region_id, "host:0", kBytes).state, State::kUnmapped);
  table.BeginFetch(region_id);
  table.FinishFetch(region_id, serial, *HostMapping::Reserve(kBytes));
}

TEST(RegionTableTest, AUsedRegionIsNotGivenBack) {
  RegionTable table;
  Map(table, 1, 7);
  EXPECT_FALSE(table.TakeIdle(7).has_value());
  EXPECT_TRUE(table.TakeAllIdle().empty());
  EXPECT_EQ(table.mapped_count(), 1u);
}

TEST(RegionTableTest, AnIdleRegionStaysMappedUntilItIsTakenAndUnmapped) {
  RegionTable table;
  Map(table, 1, 7);
  table.Unuse(1);
  EXPECT_EQ(table.mapped_count(), 1u);
  const std::optional<RegionTable::Taken> taken = table.TakeIdle(7);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->region_id, 1u);
  EXPECT_EQ(taken->share_serial, 7u);
  EXPECT_NE(taken->mapping->base(), nullptr);
  EXPECT_EQ(table.mapped_count(), 1u);
  table.FinishUnmap(1, absl::OkStatus());
  EXPECT_EQ(table.mapped_count(), 0u);
}

TEST(RegionTableTest, UsingAnIdleRegionAgainFindsItMapped) {
  RegionTable table;
  Map(table, 1, 7);
  table.Unuse(1);
  EXPECT_EQ(table.Use(1, "host:0", kBytes).state, State::kMapped);
  EXPECT_FALSE(table.TakeIdle(7).has_value());
}

TEST(RegionTableTest, UsingARegionThatIsBeingUnmappedWaitsForItsEnd) {
  RegionTable table;
  Map(table, 1, 7);
  table.Unuse(1);
  ASSERT_TRUE(table.TakeIdle(7).has_value());
  const RegionTable::Region& region = table.Use(1, "host:0", kBytes);
  EXPECT_EQ(region.state, State::kUnmapping);
  table.FinishUnmap(1, absl::OkStatus());
  EXPECT_EQ(region.state, State::kUnmapped);
}

TEST(RegionTableTest, ARegionThatCannotBeUnmappedIsStuckAndCounts) {
  RegionTable table;
  Map(table, 1, 7);
  table.Unuse(1);
  ASSERT_TRUE(table.TakeIdle(7).has_value());
  table.FinishUnmap(1, absl::InternalError("no"));
  const RegionTable::Region& region = table.Use(1, "host:0", kBytes);
  EXPECT_EQ(region.state, State::kStuck);
  EXPECT_EQ(region.stuck.message(), "no");
  EXPECT_FALSE(table.TakeIdle(7).has_value());
  EXPECT_TRUE(table.TakeAllIdle().empty());
  EXPECT_EQ(table.mapped_count(), 1u);
  EXPECT_EQ(table.mapped_bytes_by_device().at("host:0"), kBytes);
}

TEST(RegionTableTest, ARecallOfAnOlderMappingOfTheRegionTakesNothing) {
  RegionTable table;
  Map(table, 1, 7);
  table.Unuse(1);
  ASSERT_TRUE(table.TakeIdle(7).has_value());
  EXPECT_FALSE(table.TakeIdle(7).has_value());
  table.FinishUnmap(1, absl::OkStatus());
  Map(table, 1, 8);
  table.Unuse(1);
  EXPECT_FALSE(table.TakeIdle(7).has_value());
  EXPECT_TRUE(table.TakeIdle(8).has_value());
}

TEST(RegionTableTest, ARegionOnItsWayIsNotTaken) {
  RegionTable table;
  table.Use(1, "host:0", kBytes);
  table.BeginFetch(1);
  table.Unuse(1);
  EXPECT_TRUE(table.TakeAllIdle().empty());
  table.FinishFetch(1, 7, *HostMapping::Reserve(kBytes));
  EXPECT_EQ(table.TakeAllIdle().size(), 1u);
}

TEST(RegionTableTest, APartOfARegionCountsIfTheDaemonKnowsOfIt) {
  RegionTable table;
  table.Use(1, "host:0", kBytes);
  table.BeginFetch(1);
  EXPECT_EQ(table.TakePart(1, 0, *HostMapping::Reserve(kBytes)).share_serial, 0u);
  EXPECT_EQ(table.mapped_count(), 0u);
  table.FinishUnmap(1, absl::OkStatus());
  table.BeginFetch(1);
  EXPECT_EQ(table.TakePart(1, 7, *HostMapping::Reserve(kBytes)).share_serial, 7u);
  EXPECT_EQ(table.mapped_count(), 1u);
}

TEST(RegionTableTest, ARegionThatCouldNotBeFetchedIsForgottenWithItsLastUser) {
  RegionTable table;
  table.Use(1, "host:0", kBytes);
  table.Use(1, "host:0", kBytes);
  table.BeginFetch(1);
  table.FailFetch(1);
  table.Unuse(1);
  EXPECT_EQ(table.Use(1, "host:0", kBytes).state, State::kUnmapped);
  table.Unuse(1);
  table.Unuse(1);
  // Forgotten: it may have another size now.
  EXPECT_EQ(table.Use(1, "host:0", 2 * kBytes).size_bytes, 2 * kBytes);
}

}  // namespace
}  // namespace tenure::client
