#include "core/plan/plan_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace tenure {
namespace {

using ::testing::ElementsAre;

// What MakePlanProblem says of `input`: "", or "fault buffer" or "fault buffer other".
std::string FaultOf(const PlanInput& input) {
  const auto problem = MakePlanProblem(input);
  if (problem.ok()) return "";
  const auto detail = DetailOf(problem.status());
  if (!detail.has_value() || detail->reason != "INVALID_PLAN_INPUT") return "another error";
  std::string fault;
  for (const char* name : {"fault", "buffer", "other"}) {
    for (const auto& [value_name, value] : detail->values) {
      if (value_name == name) fault += (fault.empty() ? "" : " ") + value;
    }
  }
  return fault;
}

PlanBuffer Buffer(std::string id, Step first_use, std::optional<Step> end, Bytes size = Bytes(4)) {
  return {.id = std::move(id), .size = size, .first_use = first_use, .end = end};
}

TEST(PlanInputTest, EachFaultIsNamedWithItsBuffer) {
  const PlanBuffer good = Buffer("good", 0, 3);
  struct Row {
    const char* fault;
    PlanBuffer buffer;
  };
  std::vector<Row> rows = {
      {"empty_lifespan x", Buffer("x", 2, 2)},
      {"inverted_lifespan x", Buffer("x", 3, 2)},
      {"negative_step x", Buffer("x", -1, 2)},
      {"negative_step x", Buffer("x", 1, -2)},
      {"step_overflow x", Buffer("x", 0, kLastStep + 1)},
      {"step_overflow x", Buffer("x", kLastStep + 1, std::nullopt)},
      {"empty_size x", Buffer("x", 0, 1, Bytes(0))},
      {"size_overflow x", Buffer("x", 0, 1, Bytes(UINT64_MAX))},
      {"size_overflow x", Buffer("x", 0, 1, Bytes(uint64_t{1} << 62))},
      {"duplicate_id good", Buffer("good", 0, 1)},
      {"empty_id ", Buffer("", 0, 1)},
  };
  const auto add = [&](const char* fault, auto change) {
    rows.push_back({fault, Buffer("x", 0, 10)});
    change(rows.back().buffer);
  };
  add("bad_alignment x", [](PlanBuffer& x) { x.alignment = Bytes(3); });
  add("bad_alignment x", [](PlanBuffer& x) { x.alignment = Bytes(0); });
  add("bad_alignment x", [](PlanBuffer& x) { x.alignment = Bytes(uint64_t{1} << 33); });
  add("bad_gap x", [](PlanBuffer& x) { x.gaps = {{0, 2}}; });
  add("bad_gap x", [](PlanBuffer& x) { x.gaps = {{8, 10}}; });
  add("bad_gap x", [](PlanBuffer& x) { x.gaps = {{4, 4}}; });
  add("bad_gap x", [](PlanBuffer& x) { x.gaps = {{5, 6}, {3, 4}}; });
  add("bad_gap x", [](PlanBuffer& x) { x.gaps = {{3, 5}, {5, 6}}; });
  add("bad_gap x", [](PlanBuffer& x) { x.gaps = {{12, 14}}; });
  add("misaligned_offset x", [](PlanBuffer& x) {
    x.alignment = Bytes(8);
    x.fixed_offset = Bytes(12);
  });
  add("offset_overflow x", [](PlanBuffer& x) { x.fixed_offset = Bytes(UINT64_MAX - 3); });
  for (const Row& row : rows) {
    EXPECT_EQ(FaultOf({good, row.buffer}), row.fault);
  }
}

TEST(PlanInputTest, NothingAndTheLargestThingMakeSense) {
  EXPECT_EQ(FaultOf({}), "");
  EXPECT_EQ(FaultOf({Buffer("x", 0, kLastStep, Bytes(uint64_t{1} << 62))}), "");
}

TEST(PlanInputTest, FixedBuffersMustNotMeet) {
  PlanBuffer low = Buffer("low", 0, 5);
  PlanBuffer high = Buffer("high", 4, 9);
  low.fixed_offset = Bytes(0);
  high.fixed_offset = Bytes(3);
  EXPECT_EQ(FaultOf({low, high}), "fixed_overlap high low");
  high.fixed_offset = Bytes(4);
  EXPECT_EQ(FaultOf({low, high}), "");
  high.fixed_offset = Bytes(3);
  high.first_use = 5;
  EXPECT_EQ(FaultOf({low, high}), "");
  // Behind one that ends lower but began lower, too.
  PlanBuffer large = Buffer("large", 0, 9, Bytes(100));
  large.fixed_offset = Bytes(0);
  PlanBuffer small = Buffer("small", 9, 10);
  small.fixed_offset = Bytes(1);
  high.fixed_offset = Bytes(50);
  EXPECT_EQ(FaultOf({large, small, high}), "fixed_overlap high large");
}

TEST(PlanInputTest, ViewsOfOneStorageMustBeFixedAtOnePlace) {
  PlanBuffer a = Buffer("a", 0, 5);
  PlanBuffer b = Buffer("b", 2, 9);
  a.alias_group = b.alias_group = 1;
  a.fixed_offset = Bytes(8);
  EXPECT_EQ(FaultOf({a, b}), "");
  b.fixed_offset = Bytes(0);
  EXPECT_EQ(FaultOf({a, b}), "fixed_apart b");
  b.fixed_offset = std::nullopt;
  b.alignment = Bytes(16);
  EXPECT_EQ(FaultOf({a, b}), "misaligned_offset a");
}

// What one buffer, or the views of one storage, make.
Storage StorageOf(const PlanInput& input) {
  const auto problem = MakePlanProblem(input);
  EXPECT_TRUE(problem.ok()) << problem.status();
  return problem.ok() ? problem->storages.front() : Storage{};
}

TEST(PlanInputTest, AStorageLivesFromTheFirstUseOfItsViewsToTheLastEnd) {
  PlanBuffer base = Buffer("base", 2, 4, Bytes(64));
  PlanBuffer view = Buffer("view", 6, 8, Bytes(32));
  base.alias_group = view.alias_group = 7;
  view.alignment = Bytes(16);
  const Storage storage = StorageOf({base, view});
  EXPECT_EQ(storage.size, Bytes(64));
  EXPECT_EQ(storage.alignment, Bytes(16));
  EXPECT_THAT(storage.alive, ElementsAre(Lifespan{2, 8}));
}

TEST(PlanInputTest, AGapStaysIfNoOtherViewNeedsWhatIsThere) {
  PlanBuffer base = Buffer("base", 0, 10);
  base.gaps = {{2, 4}, {6, 8}};
  EXPECT_THAT(StorageOf({base}).alive,
              ElementsAre(Lifespan{0, 2}, Lifespan{4, 6}, Lifespan{8, 10}));
  PlanBuffer view = Buffer("view", 3, 5);
  base.alias_group = view.alias_group = 0;
  EXPECT_THAT(StorageOf({base, view}).alive, ElementsAre(Lifespan{0, 6}, Lifespan{8, 10}));
}

TEST(PlanInputTest, OutputsLiveToTheEndAndWhatHasNoLastUseForEver) {
  PlanBuffer output = Buffer("output", 1, 2);
  output.output = true;
  EXPECT_THAT(StorageOf({output, Buffer("later", 5, 9)}).alive, ElementsAre(Lifespan{1, 9}));
  EXPECT_THAT(StorageOf({output, Buffer("later", 5, std::nullopt)}).alive,
              ElementsAre(Lifespan{1, 6}));
  EXPECT_THAT(StorageOf({Buffer("unknown", 1, std::nullopt), Buffer("later", 5, 9)}).alive,
              ElementsAre(Lifespan{1, kNeverEnds}));
}

TEST(PlanInputTest, BuffersKnowTheirStorage) {
  PlanBuffer a = Buffer("a", 0, 1);
  PlanBuffer b = Buffer("b", 0, 1);
  PlanBuffer c = Buffer("c", 0, 1);
  a.alias_group = c.alias_group = 3;
  const auto problem = MakePlanProblem({b, a, c});
  ASSERT_TRUE(problem.ok());
  EXPECT_THAT(problem->storage_of, ElementsAre(0, 1, 1));
  EXPECT_EQ(problem->storages[1].buffer, 1);
}

TEST(PlanInputTest, StoragesAreAliveTogetherOnlyWhereBothAre) {
  const Storage a{.alive = {{0, 2}, {6, 8}}};
  EXPECT_TRUE(AliveTogether(a, {.alive = {{1, 3}}}));
  EXPECT_TRUE(AliveTogether(a, {.alive = {{3, 4}, {7, 9}}}));
  EXPECT_FALSE(AliveTogether(a, {.alive = {{2, 6}}}));
  EXPECT_FALSE(AliveTogether(a, {.alive = {{2, 3}, {5, 6}, {8, 9}}}));
}

}  // namespace
}  // namespace tenure
