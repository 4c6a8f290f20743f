#include "core/plan/plan_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "tests/core/plan/fault_of.h"

namespace tenure {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

PlanInput Parsed(std::string_view text) {
  auto input = ParsePlanCsv(text);
  EXPECT_TRUE(input.ok()) << input.status();
  return input.ok() ? *std::move(input) : PlanInput();
}

std::string FaultIn(std::string_view text) { return FaultOf(ParsePlanCsv(text).status()); }

TEST(PlanCsvTest, ReadsTheTableOfMiniMallocsFirstPage) {
  const PlanInput input = Parsed("id,lower,upper,size\nb1,0,3,4\nb2,3,9,5\n");
  ASSERT_THAT(input, SizeIs(2));
  EXPECT_EQ(input[1].id, "b2");
  EXPECT_EQ(input[1].first_use, 3);
  EXPECT_EQ(input[1].end, 9);
  EXPECT_EQ(input[1].size, Bytes(5));
  EXPECT_EQ(input[1].alignment, Bytes(1));
  EXPECT_FALSE(input[1].output || input[1].fixed_offset.has_value() ||
               input[1].alias_group.has_value());
}

TEST(PlanCsvTest, ReadsEveryColumnInAnyOrder) {
  const PlanInput input = Parsed(
      "output,offset,gaps,alias,hint,alignment,size,end,start,buffer_id\n"
      "1,512,3-4 6-6;8-8,view,7,256,100,9,1,a\n"
      ",,,view,,,100,9,2,b\n"
      "no,,,other,,,100,9,2,c\n");
  ASSERT_THAT(input, SizeIs(3));
  // The last step itself stands under `end`, and in gaps then too.
  EXPECT_EQ(input[0].end, 10);
  EXPECT_THAT(input[0].gaps, ElementsAre(Lifespan{3, 5}, Lifespan{6, 7}, Lifespan{8, 9}));
  EXPECT_TRUE(input[0].output);
  EXPECT_EQ(input[0].fixed_offset, Bytes(512));
  EXPECT_EQ(input[0].alignment, Bytes(256));
  EXPECT_THAT(input[1].gaps, IsEmpty());
  EXPECT_FALSE(input[1].output || input[2].output || input[1].fixed_offset.has_value());
  EXPECT_EQ(input[0].alias_group, input[1].alias_group);
  EXPECT_NE(input[0].alias_group, input[2].alias_group);
}

TEST(PlanCsvTest, GapsOfAHalfOpenTableAreHalfOpen) {
  const PlanInput input = Parsed("start,size,buffer,upper,gaps\n6,18,1,12,7-9 \n");
  ASSERT_THAT(input, SizeIs(1));
  EXPECT_EQ(input[0].end, 12);
  EXPECT_THAT(input[0].gaps, ElementsAre(Lifespan{7, 9}));
}

TEST(PlanCsvTest, AnEmptyUpperNeverEnds) {
  EXPECT_EQ(Parsed("id,lower,upper,size\na,0,,4\n")[0].end, std::nullopt);
  EXPECT_EQ(Parsed("id,lower,end,size\na,0,,4\n")[0].end, std::nullopt);
  EXPECT_EQ(Parsed("id,lower,size,upper\na,0,4,\n")[0].end, std::nullopt);
}

TEST(PlanCsvTest, PassesOverBlanksLineEndsAndAByteOrderMark) {
  const PlanInput input =
      Parsed("\xEF\xBB\xBF\r\n id , lower,upper ,size\r\n\r\n  \t\r\n a , 0,\t3, 4 \r\n\nb,1,2,3");
  ASSERT_THAT(input, SizeIs(2));
  EXPECT_EQ(input[0].id, "a");
  EXPECT_EQ(input[0].size, Bytes(4));
  EXPECT_EQ(input[1].id, "b");
  EXPECT_THAT(Parsed("id,lower,upper,size"), IsEmpty());
}

TEST(PlanCsvTest, AValueMayBeQuoted) {
  const PlanInput input =
      Parsed("\"id\",lower,upper,size\n\"a,\"\"b\"\"\",0,3,\"4\"\n \"c\" ,0,\"\",4\n");
  ASSERT_THAT(input, SizeIs(2));
  EXPECT_EQ(input[0].id, "a,\"b\"");
  EXPECT_EQ(input[1].id, "c");
  EXPECT_EQ(input[1].end, std::nullopt);
}

TEST(PlanCsvTest, EachFaultIsNamedWithItsLine) {
  struct Row {
    const char* fault;
    std::string text;
  };
  const std::string heading = "id,lower,upper,size\n";
  const std::string more = "id,lower,upper,size,alignment,gaps,offset,output\n";
  const std::string good = "a,0,3,4\n";
  for (const auto& [fault, text] : std::vector<Row>{
           {"no_header 1", ""},
           {"no_header 1", "\n \r\n"},
           {"unknown_column 1 aligment", "id,lower,upper,size,aligment\n"},
           {"unknown_column 1 ", "id,lower,upper,size,\n"},
           {"bad_id 1", "id,lower,upper,size,\x01\n"},
           {"missing_column 2 size", "\nid,lower,upper\n"},
           {"duplicate_column 1 id", "id,lower,upper,size,buffer\n"},
           {"duplicate_column 1 upper", "id,lower,upper,size,end\n"},
           {"field_count 3", heading + good + "b,0,3\n"},
           {"field_count 3", heading + good + "b,0,3,4,5\n"},
           {"field_count 2", heading + "a,0,3,4,\n"},
           {"bad_quote 2", heading + "\"a,0,3,4\n"},
           {"bad_quote 2", heading + "\"a\"b,0,3,4\n"},
           {"bad_id 2", heading + "a\x7F,0,3,4\n"},
           {"bad_id 2", heading + std::string(1025, 'a') + ",0,3,4\n"},
           {"empty_id 3", heading + good + ",0,3,4\n"},
           {"duplicate_id 4", heading + good + "b,0,3,4\na,0,3,4\n"},
           {"bad_number 2 lower", heading + "a,,3,4\n"},
           {"bad_number 2 lower", heading + "a,0x1,3,4\n"},
           {"bad_number 2 upper", heading + "a,0,3.5,4\n"},
           {"bad_number 2 upper", heading + "a,0,9223372036854775808,4\n"},
           {"bad_number 2 size", heading + "a,0,3,-4\n"},
           {"bad_number 2 size", heading + "a,0,3,18446744073709551616\n"},
           {"bad_number 2 size", heading + "a,0,3,4KiB\n"},
           {"step_overflow 2", "id,lower,end,size\na,0,9223372036854775807,4\n"},
           {"negative_step 5", heading + good + "b,0,3,4\n\nc,-1,3,4\n"},
           {"empty_lifespan 2", heading + "a,3,3,4\n"},
           {"inverted_lifespan 2", heading + "a,4,3,4\n"},
           {"empty_size 2", heading + "a,0,3,0\n"},
           {"bad_number 2 alignment", more + "a,0,9,4,x,,,\n"},
           {"bad_alignment 2", more + "a,0,9,4,3,,,\n"},
           {"bad_number 2 gaps", more + "a,0,9,4,,3,,\n"},
           {"bad_number 2 gaps", more + "a,0,9,4,,A-B,,\n"},
           {"bad_number 2 gaps", more + "a,0,9,4,,1-2-3,,\n"},
           {"gap_window 2", more + "a,0,9,4,,3-4@0:2,,\n"},
           {"bad_gap 2", more + "a,0,9,4,,3-9,,\n"},
           {"bad_gap 2", more + "a,0,9,4,,5-6 3-4,,\n"},
           {"bad_number 2 offset", more + "a,0,9,4,,,-1,\n"},
           {"bad_output 2 output", more + "a,0,9,4,,,,maybe\n"},
           {"fixed_overlap 3", more + "a,0,9,4,,,0,\nb,0,9,4,,,2,\n"},
       }) {
    EXPECT_EQ(FaultIn(text), fault) << text;
  }
}

TEST(PlanCsvTest, TheMessageEndsWithTheLine) {
  EXPECT_EQ(ParsePlanCsv("id,lower,upper,size\na,0,3,4\na,0,3,4\n").status().message(),
            "two buffers of one name: 'a'; line: 3");
}

}  // namespace
}  // namespace tenure
