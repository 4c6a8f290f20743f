#include "core/plan/can_reuse.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

class CanReuseTest : public ::testing::Test {
 protected:
  CanReuseTest() {
    input_ = {{.id = "last", .size = Bytes(64), .first_use = 0, .end = 4},
              {.id = "next", .size = Bytes(64), .first_use = 4, .end = 6},
              {.id = "view", .size = Bytes(8), .first_use = 1, .end = 5}};
  }
  bool Reusable(Bytes offset = Bytes(0)) const { return CanReuse(input_, 0, offset, 1); }

  PlanInput input_;
};

TEST_F(CanReuseTest, FromTheEndOfTheLastReaderOn) {
  EXPECT_TRUE(Reusable());
  input_[1].first_use = 3;
  EXPECT_FALSE(Reusable());
}

TEST_F(CanReuseTest, OnlyWithEnoughRoom) {
  input_[1].size = Bytes(65);
  EXPECT_FALSE(Reusable());
}

TEST_F(CanReuseTest, OnlyWithEnoughAlignment) {
  input_[1].alignment = Bytes(32);
  EXPECT_TRUE(Reusable(Bytes(96)));
  EXPECT_FALSE(Reusable(Bytes(80)));
}

TEST_F(CanReuseTest, OnlyWhenNoViewOfItIsInUse) {
  input_[0].alias_group = input_[2].alias_group = 1;
  EXPECT_FALSE(Reusable());
  input_[2].end = 4;
  EXPECT_TRUE(Reusable());
  input_[2].end = std::nullopt;
  EXPECT_FALSE(Reusable());
}

TEST_F(CanReuseTest, NotByAViewOfTheSameStorage) {
  input_[0].alias_group = input_[1].alias_group = 1;
  EXPECT_FALSE(Reusable());
}

TEST_F(CanReuseTest, NeverOfWhatDoesNotEnd) {
  input_[0].output = true;
  EXPECT_FALSE(Reusable());
  input_[0].output = false;
  input_[0].end = std::nullopt;
  EXPECT_FALSE(Reusable());
}

TEST_F(CanReuseTest, NotInAGap) {
  input_[0].end = 9;
  input_[0].gaps = {{3, 8}};
  EXPECT_FALSE(Reusable());
}

TEST_F(CanReuseTest, OnlyWhereItHasToLie) {
  input_[1].fixed_offset = Bytes(0);
  EXPECT_TRUE(Reusable(Bytes(0)));
  EXPECT_FALSE(Reusable(Bytes(64)));
}

}  // namespace
}  // namespace tenure
