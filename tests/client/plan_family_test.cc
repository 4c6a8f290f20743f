#include "tenure/plan_family.h"

#include <gtest/gtest.h>
#include <vector>

#include "tenure/errors.h"
#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

class PlanFamilyTest : public testing::Test, protected PlainPool {
 protected:
  BufferPlan PlanOf(uint64_t bytes) const {
    return *pool.Plan({{.id = "x", .bytes = bytes, .first_use = 0, .end = 1}});
  }
  uint64_t HeightFor(const std::vector<uint64_t>& shape) const {
    const absl::StatusOr<BufferPlan> plan = family_.Smallest(shape);
    return plan.ok() ? plan->height() : 0;
  }

  PlanFamily family_;
};

TEST_F(PlanFamilyTest, TheLowestPlanThatIsLargeEnoughServesAShape) {
  ASSERT_TRUE(family_.Add({8, 128}, PlanOf(3000)).ok());
  ASSERT_TRUE(family_.Add({1, 128}, PlanOf(1000)).ok());
  ASSERT_TRUE(family_.Add({1, 512}, PlanOf(2000)).ok());
  EXPECT_EQ(HeightFor({1, 1}), 1000u);
  EXPECT_EQ(HeightFor({1, 128}), 1000u);
  EXPECT_EQ(HeightFor({1, 129}), 2000u);
  EXPECT_EQ(HeightFor({2, 128}), 3000u);
  EXPECT_EQ(HeightFor({8, 128}), 3000u);
  const absl::Status none = family_.Smallest(std::vector<uint64_t>{2, 129}).status();
  EXPECT_EQ(ErrorReason(none), "PLAN_TOO_SMALL");
  EXPECT_EQ(ErrorValues(none)["shape"], "2x129");
  ASSERT_TRUE(family_.Add({8, 128}, PlanOf(500)).ok());
  EXPECT_EQ(family_.size(), 3u);
  EXPECT_EQ(HeightFor({1, 128}), 500u);
}

TEST_F(PlanFamilyTest, ShapesOfOtherDimensionsAreRefused) {
  EXPECT_EQ(ErrorReason(family_.Add({}, PlanOf(1))), "INVALID_REQUEST");
  EXPECT_EQ(ErrorReason(family_.Smallest({}).status()), "INVALID_REQUEST");
  EXPECT_EQ(ErrorReason(family_.Smallest(std::vector<uint64_t>{1}).status()), "PLAN_TOO_SMALL");
  ASSERT_TRUE(family_.Add({1, 2}, PlanOf(1)).ok());
  EXPECT_EQ(ErrorReason(family_.Add({1}, PlanOf(1))), "INVALID_REQUEST");
  EXPECT_EQ(ErrorReason(family_.Smallest(std::vector<uint64_t>{1}).status()), "INVALID_REQUEST");
}

}  // namespace
}  // namespace tenure::client
