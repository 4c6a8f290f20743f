#include "client/cpp/slot_shelves.h"

#include <chrono>
#include <gtest/gtest.h>
#include <vector>

namespace tenure::client {
namespace {

using std::chrono::seconds;

class SlotShelvesTest : public testing::Test {
 protected:
  ~SlotShelvesTest() override { shelves_.Validate(); }

  SlotShelves shelves_{seconds(8)};
  std::vector<uint64_t> gone_;
};

TEST_F(SlotShelvesTest, WhatIsFreedServesTheNextOfItsSizeAndAlignment) {
  EXPECT_FALSE(shelves_.Take(1024, 256).has_value());
  const PoolBlock block = shelves_.Add(1024, 256, 4096, 7);
  EXPECT_EQ(block.offset, 4096u);
  EXPECT_TRUE(block.of_slot);
  EXPECT_FALSE(shelves_.Take(1024, 256).has_value());
  shelves_.Free(block);
  EXPECT_EQ(shelves_.used(), 0u);
  EXPECT_EQ(shelves_.held(), 1024u);
  EXPECT_FALSE(shelves_.Take(512, 256).has_value());
  EXPECT_FALSE(shelves_.Take(1024, 512).has_value());
  EXPECT_EQ(shelves_.Take(1024, 256)->offset, 4096u);
  EXPECT_EQ(shelves_.used(), 1024u);
}

TEST_F(SlotShelvesTest, OnlyIdleOnesAreTakenOutAndNoMoreThanEnough) {
  for (uint64_t id = 1; id <= 4; ++id) {
    const PoolBlock block = shelves_.Add(1024, 256, id * 1024, id);
    if (id == 4) continue;
    shelves_.Free(block);
  }
  EXPECT_EQ(shelves_.held(), 4 * 1024u);
  EXPECT_EQ(shelves_.TakeOut(1025, gone_), 2048u);
  EXPECT_EQ(shelves_.held(), 2048u);
  EXPECT_EQ(shelves_.TakeOut(UINT64_MAX, gone_), 1024u);
  EXPECT_EQ(gone_.size(), 3u);
  EXPECT_EQ(shelves_.used(), 1024u);
}

TEST_F(SlotShelvesTest, ThoseThatWereNotNeededLatelyAreSweptOut) {
  std::vector<PoolBlock> blocks;
  for (uint64_t id = 1; id <= 4; ++id) blocks.push_back(shelves_.Add(1024, 256, id * 1024, id));
  Instant now{seconds(1000)};
  shelves_.Sweep(now, gone_);
  for (const PoolBlock& block : blocks) shelves_.Free(block);
  for (int i = 0; i < 20; ++i) {
    // One of them is needed all the time.
    shelves_.Free(*shelves_.Take(1024, 256));
    shelves_.Sweep(now += seconds(1), gone_);
    if (i == 6) {
      EXPECT_TRUE(gone_.empty());
    }
  }
  EXPECT_EQ(gone_.size(), 3u);
  EXPECT_EQ(shelves_.held(), 1024u);
  for (int i = 0; i < 20; ++i) shelves_.Sweep(now += seconds(1), gone_);
  EXPECT_EQ(gone_.size(), 4u);
}

}  // namespace
}  // namespace tenure::client
