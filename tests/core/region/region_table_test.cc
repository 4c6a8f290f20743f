#include "core/region/region_table.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

std::shared_ptr<const Layout> LayoutOf(uint64_t size) {
  return std::make_shared<const Layout>(
      *Layout::Of({TensorSpec{.name = "t", .dtype = DType::kU8, .shape = {size}}}));
}

constexpr ContentId kContent{.digest = {.high = 1, .low = 2}};

class RegionTableTest : public ::testing::Test {
 protected:
  // A Region of 1,000 bytes that is Active with kContent.
  RegionId Publish() {
    const RegionId id = table_.Create(LayoutOf(1000), Bytes(4096)).id;
    table_.Update(id, [](Region& region) { region.content = kContent; });
    table_.Transition(id, RegionEvent::kPublish);
    return id;
  }

  IdSequence<RegionId> ids_;
  RegionTable table_{ids_};
};

TEST_F(RegionTableTest, TheSumsFollowEveryChange) {
  const RegionId id = table_.Create(LayoutOf(1000), Bytes(4096)).id;
  EXPECT_EQ(table_.ledger().loading, Bytes(1000));
  EXPECT_EQ(table_.ledger().padding, Bytes(3096));
  table_.Transition(id, RegionEvent::kPublish);
  EXPECT_EQ(table_.ledger().idle, Bytes(1000));
  table_.Update(id, [](Region& region) { region.leases = 1; });
  EXPECT_EQ(table_.ledger().leased, Bytes(1000));
  table_.Update(id, [](Region& region) {
    region.leases = 0;
    region.shares = region.quarantined_shares = 1;
  });
  EXPECT_EQ(table_.ledger().quarantined, Bytes(1000));
  table_.Update(id, [](Region& region) { region.quarantined_shares = 0; });
  table_.Transition(id, RegionEvent::kRetire);
  EXPECT_EQ(table_.ledger().retained, Bytes(4096));
  table_.Transition(id, RegionEvent::kReclaim);
  EXPECT_EQ(table_.ledger(), Ledger());
  EXPECT_EQ(table_.Find(id), nullptr);
}

TEST_F(RegionTableTest, RegionsAreFoundByContentAndByArchitecture) {
  const RegionId id = Publish();
  ASSERT_EQ(table_.WithContent(kContent).size(), 1U);
  EXPECT_EQ(table_.WithContent(kContent)[0]->id, id);
  EXPECT_EQ(table_.WithArchitecture(LayoutOf(1000)->key()).size(), 1U);
  EXPECT_TRUE(table_.WithArchitecture(LayoutOf(1001)->key()).empty());
  table_.Transition(id, RegionEvent::kRetire);
  table_.Transition(id, RegionEvent::kReclaim);
  EXPECT_TRUE(table_.WithContent(kContent).empty());
  EXPECT_TRUE(table_.WithArchitecture(LayoutOf(1000)->key()).empty());
}

TEST_F(RegionTableTest, AdoptingForgetsTheContentAndMovesTheGenerationOn) {
  const RegionId id = Publish();
  table_.Transition(id, RegionEvent::kRetire);
  const Generation before = table_.Find(id)->generation;
  table_.Transition(id, RegionEvent::kAdopt);
  EXPECT_FALSE(table_.Find(id)->content.has_value());
  EXPECT_EQ(table_.Find(id)->generation.value(), before.value() + 1);
  EXPECT_TRUE(table_.WithContent(kContent).empty());
}

TEST_F(RegionTableTest, OnlyDisposableRegionsExpire) {
  const Instant now = Instant(std::chrono::hours(1));
  const RegionId id = Publish();
  table_.Update(id, [&](Region& region) { region.expires = now; });
  EXPECT_TRUE(table_.Expired(now).empty());  // Active
  table_.Transition(id, RegionEvent::kRetire);
  EXPECT_EQ(table_.Expired(now), std::vector<RegionId>{id});
  EXPECT_TRUE(table_.Expired(now - std::chrono::seconds(1)).empty());
  table_.Update(id, [](Region& region) { region.exports = 1; });
  EXPECT_TRUE(table_.Expired(now).empty());
  table_.Update(id, [](Region& region) {
    region.exports = 0;
    region.shares = region.quarantined_shares = 1;
  });
  EXPECT_TRUE(table_.Expired(now).empty());
}

TEST_F(RegionTableTest, AnImpossibleTransitionIsABug) {
  const RegionId id = Publish();
  EXPECT_DEATH(table_.Transition(id, RegionEvent::kReclaim), "CHECK failed");
}

}  // namespace
}  // namespace tenure
