#include "core/arena/ledger.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

TEST(LedgerTest, PaddingIsSplitOffAllButRetainedRegions) {
  Ledger ledger;
  ledger.Add(Holding::kLeased, KiB(8), KiB(7));
  ledger.Add(Holding::kRetained, KiB(8), KiB(7));
  EXPECT_EQ(ledger.leased, KiB(7));
  EXPECT_EQ(ledger.padding, KiB(1));
  EXPECT_EQ(ledger.retained, KiB(8));
  EXPECT_EQ(ledger.allocated(), KiB(8));
  EXPECT_EQ(ledger.requested(), KiB(7));
}

TEST(LedgerTest, WhatWasAddedCanBeTakenOffAgain) {
  Ledger ledger;
  for (const Holding holding : {Holding::kLoading, Holding::kLeased, Holding::kQuarantined,
                                Holding::kIdle, Holding::kRetained}) {
    ledger.Add(holding, KiB(12), KiB(9));
    EXPECT_NE(ledger, Ledger());
    ledger.Remove(holding, KiB(12), KiB(9));
    EXPECT_EQ(ledger, Ledger());
  }
}

TEST(LedgerTest, FragmentationIsTheShareOfFreeBytesOutOfReach) {
  Ledger ledger;
  EXPECT_EQ(ledger.fragmentation_ratio(), 0);
  ledger.cached = KiB(30);
  ledger.unbacked = KiB(10);
  ledger.largest_free = KiB(10);
  EXPECT_DOUBLE_EQ(ledger.fragmentation_ratio(), 0.75);
}

}  // namespace
}  // namespace tenure
