#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "client/cli/plan_svg.h"

namespace tenure::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlanBuffer Buffer(std::string id, Step first_use, std::optional<Step> end, Bytes size) {
  return {.id = std::move(id), .size = size, .first_use = first_use, .end = end};
}

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlanSvgTest, DrawsTimeAcrossAndOffsetsUp) {
  const PlanInput input = {Buffer("A", 0, 5, MiB(4)), Buffer("B", 5, 10, MiB(8))};
  const std::string svg =
      DrawPlan(input, {MiB(4), Bytes(0)}, {.title = "t", .height = MiB(8), .lower_bound = MiB(8)});
  // The plot is 1090 wide from 90 on, and 600 high from 50 on.
  EXPECT_THAT(svg, HasSubstr("<rect x=\"90.00\" y=\"50.00\" width=\"545.00\" height=\"300.00\""));
  EXPECT_THAT(svg, HasSubstr("<rect x=\"635.00\" y=\"50.00\" width=\"545.00\" height=\"600.00\""));
  EXPECT_THAT(svg, HasSubstr("<title>A: 4 MiB at 4194304, steps 0 to 4</title>"));
  EXPECT_THAT(svg, HasSubstr(">2 MiB</text>"));
  EXPECT_THAT(svg, HasSubstr(">A</text>"));
  EXPECT_THAT(svg, Not(HasSubstr("class=\"capacity\"")));
  EXPECT_EQ(svg, DrawPlan(input, {MiB(4), Bytes(0)},
                          {.title = "t", .height = MiB(8), .lower_bound = MiB(8)}));
}

TEST(PlanSvgTest, ABufferWithGapsHasARectangleForEachPart) {
  PlanInput input = {Buffer("A", 0, 10, MiB(1)), Buffer("B", 2, std::nullopt, MiB(1)),
                     Buffer("C", 1, 3, MiB(1))};
  input[0].gaps = {{2, 4}, {6, 8}};
  input[2].output = true;
  const std::string svg = DrawPlan(input, {Bytes(0), MiB(1), MiB(2)},
                                   {.title = "t", .height = MiB(3), .lower_bound = MiB(3)});
  EXPECT_EQ(CountOf(svg, "<rect "), 5u);
  EXPECT_EQ(CountOf(svg, "<title>A: 1 MiB at 0, steps 0 to 9, 2 gaps</title>"), 3u);
  EXPECT_THAT(svg, HasSubstr("B: 1 MiB at 1048576, steps 2 on"));
  EXPECT_THAT(svg, HasSubstr("C: 1 MiB at 2097152, steps 1 to 2, kept to the end"));
}

TEST(PlanSvgTest, ShowsTheCapacityWhereThatLeavesThePlanToBeSeen) {
  const PlanInput input = {Buffer("A", 0, 5, MiB(4))};
  const auto drawn = [&](Bytes capacity) {
    return DrawPlan(input, {Bytes(0)},
                    {.title = "t", .height = MiB(4), .lower_bound = MiB(4), .capacity = capacity});
  };
  EXPECT_THAT(drawn(MiB(3)), HasSubstr(">capacity 3 MiB</text>"));
  EXPECT_THAT(drawn(MiB(8)), HasSubstr("<path class=\"capacity\" d=\"M90 50.00H1180\"/>"));
  EXPECT_THAT(drawn(GiB(8)), Not(HasSubstr("class=\"capacity\"")));
}

TEST(PlanSvgTest, EveryScaleHasAFewTicks) {
  for (const Step steps : {Step{1}, Step{13}, Step{99'999}, kLastStep}) {
    for (const uint64_t bytes : {uint64_t{1}, uint64_t{12'345}, uint64_t{1} << 62}) {
      const PlanInput input = {Buffer("A", 0, steps, Bytes(bytes))};
      const std::string svg = DrawPlan(
          input, {Bytes(0)}, {.title = "t", .height = Bytes(bytes), .lower_bound = Bytes(bytes)});
      EXPECT_LE(CountOf(svg, "class=\"tick\""), 9u) << bytes;
      EXPECT_GE(CountOf(svg, "class=\"tick\""), 2u) << bytes;
      EXPECT_LE(CountOf(svg, "class=\"x\""), 14u) << steps;
      EXPECT_GE(CountOf(svg, "class=\"x\""), 3u) << steps;
    }
  }
  EXPECT_THAT(DrawPlan({}, {}, {.title = "none"}), HasSubstr("<title>none</title>"));
}

}  // namespace
}  // namespace tenure::cli
