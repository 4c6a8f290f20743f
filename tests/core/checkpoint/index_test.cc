#include "core/checkpoint/index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace tenure {
namespace {

using testing::HasSubstr;
using testing::Pair;

TEST(ShardIndexTest, GivesTheWeightMapInTheFilesOrder) {
  const auto map = ParseShardIndex(
      "{\n  \"metadata\": {\"total_size\": 12, \"more\": [1, {\"x\": null}]},\n"
      "  \"weight_map\": {\"b\": \"model-2.safetensors\", \"a\": \"model-1.safetensors\"},\n"
      "  \"version\": 1.5\n}\n");
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_THAT(*map, testing::ElementsAre(Pair("b", "model-2.safetensors"),
                                         Pair("a", "model-1.safetensors")));
}

// Field case 29.
TEST(ShardIndexTest, RefusesWhatIsNoIndex) {
  using std::string_literals::operator""s;
  for (const std::string& text : {
           ""s,
           "{"s,
           "not JSON"s,
           "[]"s,
           "null"s,
           "7"s,
           "{}"s,
           R"({"metadata":{}})"s,
           R"({"weight_map":{}})"s,
           R"({"weight_map":null})"s,
           R"({"weight_map":[]})"s,
           R"({"weight_map":[["a","b"]]})"s,
           R"({"weight_map":"a"})"s,
           R"({"weight_map":{"a":1}})"s,
           R"({"weight_map":{"a":null}})"s,
           R"({"weight_map":{"a":["b"]}})"s,
           R"({"weight_map":{"a":{"b":"c"}}})"s,
           R"({"weight_map":{"a":"b"}}x)"s,
           "{\"weight_map\":{\"a\":\"b\"}}\0{}"s,
           R"({"weight_map":{"a":"b"},"weight_map":{"c":"d"}})"s,
           R"({"weight_map":{"a":"b"},"weight\u005fmap":{"c":"d"}})"s,
           R"({"weight_map":{"a":"b"},})"s,
           R"({"weight_map":{"a":"b",}})"s,
           R"({"weight_map":{"a":"b"}}{})"s,
           R"({"weight_map":{"a":"b"}}//)"s,
           R"([{"weight_map":{"a":"b"}}])"s,
           R"({"metadata":{"weight_map":{"a":"b"}}})"s,
           R"({"Weight_Map":{"a":"b"}})"s,
           R"({"weight_map":7})"s,
           R"({"weight_map":-7})"s,
           R"({"weight_map":true})"s,
           R"({"weight_map":{"a":1.5}})"s,
           R"({"weight_map":{"a":-1}})"s,
           R"({"weight_map":{"a":true}})"s,
           R"({"weight_map":{"a":"b"},"metadata":{"x":1e999}})"s,
           R"({"weight_map":{"a":"b"},"metadata":{"x":01}})"s,
           R"({"weight_map":{"\ud800":"b"}})"s,
           "{\"weight_map\":{\"\xFF\":\"b\"}}"s,
           "{\"weight_map\":{\"a\":\"\xC0\xAF\"}}"s,
           "{\"weight_map\":{\"a\nb\":\"c\"}}"s,
           "\xFF\xFE{\0}\0"s,
           "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"s,
           R"({"weight_map":{"a":"b"},"metadata":)"s + std::string(1'000'000, '['),
       }) {
    const auto map = ParseShardIndex(text);
    EXPECT_TRUE(HasReason(map.status(), Reason::kInvalidCheckpoint)) << text.substr(0, 80);
  }
}

// Field case 29.
TEST(ShardIndexTest, RefusesATensorNamedTwice) {
  for (const char* text : {R"({"weight_map":{"twice":"a","twice":"a"}})",
                           R"({"weight_map":{"twice":"a","x":"a","tw\u0069ce":"b"}})"}) {
    const auto map = ParseShardIndex(text);
    EXPECT_TRUE(HasReason(map.status(), Reason::kInvalidCheckpoint)) << text;
    EXPECT_THAT(std::string(map.status().message()), HasSubstr("twice"));
  }
}

// Field case 30.
TEST(ShardIndexTest, RefusesShardNamesThatLeadOutOfTheDirectory) {
  for (const char* name : {"", ".", "..", "../x", "/etc/passwd", "a/../../x", "a/b", "a/", "./a",
                           R"(x\u0000y)", R"(x\ny)", R"(\/etc\/passwd)", R"(\u002e\u002e)", "a//b",
                           "/", R"(\u002fetc\u002fpasswd)", R"(\t)", R"(a\u001f)", R"(..\/x)"}) {
    const auto map = ParseShardIndex(R"({"weight_map":{"bad":")" + std::string(name) + R"("}})");
    EXPECT_TRUE(HasReason(map.status(), Reason::kInvalidCheckpoint)) << name;
    EXPECT_THAT(std::string(map.status().message()), HasSubstr("bad")) << name;
  }
  EXPECT_FALSE(ParseShardIndex(R"({"weight_map":{"bad":")" + std::string(256, 'x') + "\"}}").ok());
}

TEST(ShardIndexTest, TakesAnyTensorName) {
  const std::string longest(5000, 'x');
  for (const std::string& name :
       {std::string(), std::string(R"(\u0000)"), std::string("\x7F"), std::string("__metadata__"),
        std::string("weight_map"), longest}) {
    const auto map = ParseShardIndex(R"({"weight_map":{")" + name + R"(":"a"}})");
    EXPECT_TRUE(map.ok()) << map.status();
  }
  const auto map = ParseShardIndex(R"({"weight_map":{")" + longest + R"(":1}})");
  EXPECT_LT(map.status().message().size(), 300u);
}

// Editors on Windows leave one.
TEST(ShardIndexTest, TakesAByteOrderMark) {
  EXPECT_TRUE(ParseShardIndex("\xEF\xBB\xBF{\"weight_map\":{\"a\":\"b\"}}").ok());
}

TEST(ShardIndexTest, TakesAnyPlainFileName) {
  for (const char* name : {"a", "..a", "a..b", "...", "model 1.safetensors", "\\\\x", "\xC3\xA9",
                           " ", "-rf", "a:b", "C:\\\\x", "~", "$HOME", "%2e%2e%2fx", "*"}) {
    EXPECT_TRUE(ParseShardIndex(R"({"weight_map":{"a":")" + std::string(name) + R"("}})").ok())
        << name;
  }
}

}  // namespace
}  // namespace tenure
