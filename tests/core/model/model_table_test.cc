#include "core/model/model_table.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

constexpr ContentId kOld{.digest = {.high = 1, .low = 1}};
constexpr ContentId kNew{.digest = {.high = 2, .low = 2}};

class ModelTableTest : public ::testing::Test {
 protected:
  void Load(const std::string& name, uint64_t region, const ContentId& content) {
    Model model;
    model.name = name;
    model.revision = table_.RevisionFor(name, content);
    model.region = RegionId(region);
    table_.Assign(model);
    table_.SetCurrent(RegionId(region), content);
  }

  ModelTable table_;
};

TEST_F(ModelTableTest, OtherContentIsANewRevisionAndTheSameContentIsNot) {
  EXPECT_EQ(table_.RevisionFor("m", kOld), Revision(1));
  Load("m", 1, kOld);
  EXPECT_EQ(table_.RevisionFor("m", kOld), Revision(1));
  EXPECT_EQ(table_.RevisionFor("m", kNew), Revision(2));
  Load("m", 2, kNew);
  EXPECT_EQ(table_.RevisionFor("m", kOld), Revision(3));
}

TEST_F(ModelTableTest, RevisionsGrowEvenWhenTheModelIsForgotten) {
  Load("m", 1, kOld);
  table_.Erase(RegionId(1));
  EXPECT_EQ(table_.OfRegion(RegionId(1)), nullptr);
  EXPECT_EQ(table_.RevisionFor("m", kNew), Revision(2));
}

TEST_F(ModelTableTest, ANameMeansItsCurrentRevision) {
  Load("m", 1, kOld);
  Load("m", 2, kNew);
  EXPECT_EQ(table_.Current("m")->region, RegionId(2));
  EXPECT_EQ(table_.Find("m", Revision(1))->region, RegionId(1));
  table_.ClearCurrent(RegionId(2));
  EXPECT_EQ(table_.Current("m"), nullptr);
  EXPECT_EQ(table_.Named("m").size(), 2U);
}

TEST_F(ModelTableTest, ARegionThatAnotherModelTakesIsNoLongerTheFirstOnes) {
  Load("a", 1, kOld);
  Load("b", 1, kNew);
  EXPECT_EQ(table_.Current("a"), nullptr);
  EXPECT_TRUE(table_.Named("a").empty());
  EXPECT_EQ(table_.FullNameOf(RegionId(1)), "b@1");
}

TEST(ModelNameTest, NamesHaveLettersDigitsAndAFewSigns) {
  for (const char* good : {"a", "Org/model-7b_v1.2", "0"}) EXPECT_TRUE(CheckModelName(good).ok());
  for (const std::string& bad :
       {std::string(), std::string(129, 'a'), std::string("/a"), std::string("-a"),
        std::string("a b"), std::string("a\n"), std::string("a@1"), std::string("a\0b", 3)}) {
    EXPECT_TRUE(HasReason(CheckModelName(bad), Reason::kInvalidRequest)) << bad;
  }
}

}  // namespace
}  // namespace tenure
