#include "core/base/ids.h"

#include <gtest/gtest.h>
#include <type_traits>
#include <unordered_set>

namespace tenure {
namespace {

static_assert(!std::is_convertible_v<uint64_t, LeaseId>);
static_assert(!std::is_convertible_v<LeaseId, RegionId>);

TEST(IdsTest, TheFirstIssuedIdIsOneAndEachIsNew) {
  IdSequence<LeaseId> sequence;
  EXPECT_EQ(sequence.Next(), LeaseId(1));
  EXPECT_EQ(sequence.Next(), LeaseId(2));
}

TEST(IdsTest, AnIdThatNobodyIssuedIsNotValid) {
  EXPECT_FALSE(LeaseId().valid());
  EXPECT_FALSE(LeaseId(0).valid());
  EXPECT_TRUE(IdSequence<LeaseId>().Next().valid());
}

TEST(IdsTest, IdsCompareAndHashByTheirNumber) {
  EXPECT_LT(Generation(1), Generation(2));
  const std::unordered_set<RegionId> ids = {RegionId(1), RegionId(2), RegionId(1)};
  EXPECT_EQ(ids.size(), 2u);
}

}  // namespace
}  // namespace tenure
