#include "core/plan/plan_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "tests/core/plan/fault_of.h"

namespace tenure {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

std::map<std::string, PlanBuffer> Parsed(std::string_view text) {
  const auto input = ParsePlanTrace(text);
  EXPECT_TRUE(input.ok()) << input.status();
  std::map<std::string, PlanBuffer> buffers;
  if (!input.ok()) return buffers;
  for (const PlanBuffer& buffer : *input) buffers.emplace(buffer.id, buffer);
  return buffers;
}

std::string FaultIn(std::string_view text) { return FaultOf(ParsePlanTrace(text).status()); }

TEST(PlanTraceTest, ATensorLivesFromItsWriterToTheEndOfItsLastReader) {
  const auto buffers = Parsed(R"({"tensor": "x", "size": 64, "alignment": 32}
{"op": "a", "inputs": ["x"], "outputs": [{"name": "y", "size": 8}, {"name": "mask", "size": 1}]}
{"op": "b", "inputs": ["x", "y"], "outputs": [{"name": "z", "size": 8}]}
{"op": "c", "inputs": ["z", "y"], "outputs": [{"name": "w", "size": 8}]}
{"outputs": ["w"]}
)");
  ASSERT_THAT(buffers, SizeIs(5));
  const auto lifespan = [&](const char* id) {
    return Lifespan{buffers.at(id).first_use, *buffers.at(id).end};
  };
  EXPECT_EQ(lifespan("x"), (Lifespan{0, 2}));
  EXPECT_EQ(lifespan("y"), (Lifespan{0, 3}));
  EXPECT_EQ(lifespan("z"), (Lifespan{1, 3}));
  EXPECT_EQ(lifespan("w"), (Lifespan{2, 3}));
  // Written, and never read.
  EXPECT_EQ(lifespan("mask"), (Lifespan{0, 1}));
  EXPECT_TRUE(buffers.at("w").output);
  EXPECT_FALSE(buffers.at("z").output);
  EXPECT_EQ(buffers.at("x").alignment, Bytes(32));
  EXPECT_EQ(buffers.at("x").size, Bytes(64));
}

TEST(PlanTraceTest, StepsCanBeGivenAndShared) {
  const auto buffers = Parsed(R"({"tensor": "x", "size": 8}
{"op": "a", "outputs": [{"name": "p", "size": 8}], "step": 5}
{"op": "b", "outputs": [{"name": "q", "size": 8}], "step": 5}
{"op": "c", "inputs": ["p"]}
{"op": "d", "inputs": ["q", "x"], "step": 90}
)");
  EXPECT_EQ(buffers.at("x").first_use, 5);
  EXPECT_EQ(buffers.at("x").end, 91);
  EXPECT_EQ(buffers.at("p").end, 7);
  EXPECT_EQ(buffers.at("q").first_use, 5);
}

TEST(PlanTraceTest, WhatIsKnownBeforeCanBeWrittenByName) {
  const auto buffers = Parsed(R"({"tensor": "x", "size": 8}
{"tensor": "y", "size": 4}
{"op": "a", "inputs": ["x"], "outputs": []}
{"op": "b", "outputs": ["y"]}
{"op": "c", "inputs": ["y"]}
)");
  EXPECT_EQ(buffers.at("y").first_use, 1);
  EXPECT_EQ(buffers.at("y").end, 3);
}

TEST(PlanTraceTest, ViewsOfViewsAreViewsOfOneStorage) {
  const auto buffers = Parsed(R"({"tensor": "x", "size": 64}
{"op": "reshape", "inputs": ["x"], "outputs": [{"name": "v", "alias_of": "x"}]}
{"op": "slice", "inputs": ["v"], "outputs": [{"name": "w", "alias_of": "v", "size": 16}]}
{"op": "a", "inputs": ["w"], "outputs": [{"name": "y", "size": 4}, {"name": "v2", "alias_of": "y"}]}
)");
  EXPECT_EQ(buffers.at("v").size, Bytes(64));
  EXPECT_EQ(buffers.at("w").size, Bytes(16));
  ASSERT_TRUE(buffers.at("x").alias_group.has_value());
  EXPECT_EQ(buffers.at("v").alias_group, buffers.at("x").alias_group);
  EXPECT_EQ(buffers.at("w").alias_group, buffers.at("x").alias_group);
  EXPECT_EQ(buffers.at("v2").alias_group, buffers.at("y").alias_group);
  EXPECT_NE(buffers.at("y").alias_group, buffers.at("x").alias_group);
}

TEST(PlanTraceTest, NothingIsNothing) {
  EXPECT_THAT(Parsed(""), IsEmpty());
  EXPECT_THAT(Parsed("\r\n{\"op\": \"barrier\"}\r\n"), IsEmpty());
  EXPECT_EQ(Parsed(R"({"tensor": "x", "size": 8})").at("x").end, 1);
}

TEST(PlanTraceTest, EachFaultIsNamedWithItsLine) {
  struct Row {
    const char* fault;
    std::string text;
  };
  const std::string x = "{\"tensor\": \"x\", \"size\": 8}\n";
  for (const auto& [fault, text] : std::vector<Row>{
           {"not_json 2", x + "{\"op\": \"a\","},
           {"not_json 1", "tensor x 8"},
           {"not_json 1", "{\"op\": \"\xFF\"}"},
           {"not_json 1", "{\"op\": \"a\"}" + std::string(1, '\0') + "{"},
           {"not_an_object 1", "[\"x\"]"},
           {"missing_key 3 op", x + "\n{}"},
           {"missing_key 1 size", R"({"tensor": "x"})"},
           {"missing_key 1 name", R"({"op": "a", "outputs": [{"size": 1}]})"},
           {"unknown_key 1 sise", R"({"tensor": "x", "sise": 1})"},
           {"unknown_key 1 op", R"({"tensor": "x", "size": 1, "op": "a"})"},
           {"unknown_key 1 input", R"({"op": "a", "input": ["x"]})"},
           {"unknown_key 1 step", R"({"outputs": [], "step": 1})"},
           {"bad_id 1", R"({"op": "a", "\u0007": 1})"},
           {"bad_id 1", R"({"tensor": "\n", "size": 1})"},
           {"bad_id 1", "{\"op\": \"a\", \"inputs\": [\"" + std::string(1025, 'x') + "\"]}"},
           {"bad_value 1 op", R"({"op": 1})"},
           {"bad_value 1 inputs", R"({"op": "a", "inputs": "x"})"},
           {"bad_value 1 inputs", R"({"op": "a", "inputs": [7]})"},
           {"bad_value 1 outputs", R"({"op": "a", "outputs": [null]})"},
           {"bad_value 1 tensor", R"({"tensor": ["x"], "size": 1})"},
           {"bad_value 1 size", R"({"tensor": "x", "size": -1})"},
           {"bad_value 1 size", R"({"tensor": "x", "size": 1.5})"},
           {"bad_value 1 size", R"({"tensor": "x", "size": 18446744073709551616})"},
           {"bad_value 1 alignment", R"({"tensor": "x", "size": 1, "alignment": "256"})"},
           {"bad_value 2 alias_of", x + R"({"tensor": "y", "alias_of": 0})"},
           {"bad_value 1 step", R"({"op": "a", "step": -1})"},
           {"step_order 2", "{\"op\": \"a\", \"step\": 3}\n{\"op\": \"b\", \"step\": 2}"},
           {"step_overflow 1", R"({"op": "a", "step": 18446744073709551615})"},
           {"step_overflow 2", "{\"op\": \"a\", \"step\": 70368744177662}\n{\"op\": \"b\"}"},
           {"unknown_tensor 2", x + R"({"op": "a", "inputs": ["x", "w"]})"},
           {"unknown_tensor 1", R"({"op": "a", "outputs": ["y"]})"},
           {"unknown_tensor 1", R"({"outputs": ["y"]})"},
           {"unknown_tensor 1", R"({"tensor": "x", "alias_of": "x"})"},
           {"duplicate_tensor 2", x + x},
           {"duplicate_tensor 2", x + R"({"op": "a", "outputs": [{"name": "x", "size": 8}]})"},
           {"written_twice 3", x + R"({"op": "a", "outputs": ["x"]})"
                                   "\n"
                                   R"({"op": "b", "outputs": ["x"]})"},
           {"written_after_read 2", x + R"({"op": "a", "inputs": ["x"], "outputs": ["x"]})"},
           {"empty_id 1", R"({"tensor": "", "size": 1})"},
           {"empty_size 2", x + R"({"tensor": "y", "size": 0})"},
           {"bad_alignment 2", x + R"({"tensor": "y", "size": 1, "alignment": 3})"},
       }) {
    EXPECT_EQ(FaultIn(text), fault) << text;
  }
}

TEST(PlanTraceTest, NamesTheTensorThatIsAtFault) {
  const auto detail = DetailOf(ParsePlanTrace(R"({"op": "a", "inputs": ["w"]})").status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_THAT(detail->values,
              ::testing::Contains(std::pair<std::string, std::string>("buffer", "w")));
}

TEST(PlanTraceTest, IsNoDeeperThanItsText) {
  EXPECT_EQ(FaultIn(std::string(100'000, '[')), "not_json 1");
  EXPECT_EQ(FaultIn("{\"op\": " + std::string(100'000, '[') + std::string(100'000, ']') + "}"),
            "bad_value 1 op");
}

}  // namespace
}  // namespace tenure
