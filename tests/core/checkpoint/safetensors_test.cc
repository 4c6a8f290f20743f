#include "core/checkpoint/safetensors.h"

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "core/base/clock.h"
#include "tests/core/checkpoint/header_rows.h"
#include "tests/support/safetensors_writer.h"

namespace tenure {
namespace {

using testing::HasSubstr;

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesEntriesThatAreNotWhatTheFormatSays) {
  ExpectRefused({
      {"null", R"({"bad":null})", 0, "bad"},
      {"array", R"({"bad":["F32",[2],[0,8]]})", 8, "bad"},
      {"string", R"({"bad":"F32"})", 0, "bad"},
      {"number", R"({"bad":8})", 8, "bad"},
      {"empty", R"({"bad":{}})", 0, "bad"},
      {"no dtype", R"({"bad":{"shape":[2],"data_offsets":[0,2]}})", 2, "bad"},
      {"no shape", R"({"bad":{"dtype":"U8","data_offsets":[0,1]}})", 1, "bad"},
      {"no offsets", R"({"bad":{"dtype":"U8","shape":[0]}})", 0, "bad"},
      {"dtype a number", R"({"bad":{"dtype":8,"shape":[0],"data_offsets":[0,0]}})", 0, "bad"},
      {"dtype an array", R"({"bad":{"dtype":["U8"],"shape":[0],"data_offsets":[0,0]}})", 0, "bad"},
      {"dtype null", R"({"bad":{"dtype":null,"shape":[0],"data_offsets":[0,0]}})", 0, "bad"},
      {"true", R"({"bad":true})", 0, "bad"},
      {"negative", R"({"bad":-1})", 0, "bad"},
      {"fields in capitals", R"({"bad":{"Dtype":"U8","Shape":[0],"Data_Offsets":[0,0]}})", 0,
       "bad"},
      {"dtype an object", R"({"bad":{"dtype":{"U8":1},"shape":[0],"data_offsets":[0,0]}})", 0,
       "bad"},
      {"the second", Header({Entry("a", 0, 4), R"("bad":[])"}), 4, "bad"},
  });
}

TEST(SafetensorsHeaderTest, RefusesDuplicateKeysHoweverTheyAreWritten) {
  ExpectRefused({
      {"tensor", Header({Entry("bad", 0, 4), Entry("bad", 4, 8)}), 8, "bad"},
      {"tensor, escaped", Header({Entry("bad", 0, 4), Entry("b\\u0061d", 4, 8)}), 8, "bad"},
      {"tensor without bytes", Header({Entry("bad", 0, 0), Entry("bad", 0, 0)}), 0, "bad"},
      {"dtype", R"({"bad":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})", 0,
       "bad"},
      {"shape", R"({"bad":{"dtype":"U8","shape":[9],"shape":[0],"data_offsets":[0,0]}})", 0, "bad"},
      {"offsets, escaped",
       R"({"bad":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"data_offset\u0073":[0,0]}})", 0,
       "bad"},
      {"metadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "__metadata__"},
      {"in metadata", R"({"__metadata__":{"twice":"a","twic\u0065":"b"}})", 0, "twice"},
      {"metadata, escaped", R"({"__metadata__":null,"__metad\u0061ta__":{}})", 0, "__metadata__"},
      {"empty name", Header({Entry("", 0, 4), Entry("", 4, 8)}), 8, "duplicate tensor"},
      {"surrogates and UTF-8",
       Header({Entry("\xF0\x9F\x98\x80", 0, 4), Entry(R"(\ud83d\ude00)", 4, 8)}), 8,
       "duplicate tensor"},
      {"slash", Header({Entry("bad/x", 0, 4), Entry(R"(bad\/x)", 4, 8)}), 8, "bad/x"},
      {"far apart", Header({Entry("bad", 0, 4), Entry("b", 4, 8), Entry("bad", 8, 12)}), 12, "bad"},
  });
}

TEST(SafetensorsHeaderTest, RefusesMetadataThatDoesNotMapStringsToStrings) {
  for (const char* metadata :
       {"[]", "1", R"("x")", "true", R"({"a":1})", R"({"a":null})", R"({"a":{}})", R"({"a":["b"]})",
        "-1", "1.5", R"({"a":true})", R"({"a":-1})", R"({"a":"b","c":1.5})", "[{}]"}) {
    ExpectRefused(
        BrokenRow{metadata, absl::StrCat(R"({"__metadata__":)", metadata, "}"), 0, "__metadata__"});
  }
}

// Field cases 22 and 24.
TEST(SafetensorsHeaderTest, RefusesTextThatIsNotOneJsonObject) {
  using std::string_literals::operator""s;
  ExpectRefused({
      {"nothing", "", 0, "begin"},
      {"array", "[]", 0, "begin"},
      {"string", R"("x")", 0, "begin"},
      {"null", "null", 0, "begin"},
      {"leading space", " {}", 0, "begin"},
      {"byte order mark", "\xEF\xBB\xBF{}", 0, "begin"},
      {"open object", "{", 0, "not JSON"},
      {"open string", R"({"a)", 0, "not JSON"},
      {"two objects", "{}{}", 0, "not JSON"},
      {"trailing text", "{} x", 0, "not JSON"},
      {"trailing comma", R"({"__metadata__":{},})", 0, "not JSON"},
      {"comment", "{/* */}", 0, "not JSON"},
      {"single quotes", "{'a':1}", 0, "not JSON"},
      {"unquoted key", "{a:1}", 0, "not JSON"},
      {"zero bytes for padding", "{}\0\0"s, 0, "zero byte"},
      {"a zero byte and more", "{}\0{"s, 0, "zero byte"},
      {"control character in a name", "{\"a\nb\":1}", 0, "not JSON"},
      {"line end in a name", "{\"a\\\"\n\":1}", 0, "not JSON at byte 6"},
      {"backslash and line end", "{\n\"a\\\n\":1}", 0, "not JSON at byte 6"},
      {"tab in a name", "{\"a\\\\\t\":1}", 0, "not JSON at byte 6"},
      {"not UTF-8", "{\"\xFF\":1}", 0, "not JSON"},
      {"half a surrogate pair", R"({"\ud800":1})", 0, "not JSON"},
      {"NaN", R"({"__metadata__":NaN})", 0, "not JSON"},
      {"leading zero", WithOffsets("[00,8]"), 8, "not JSON"},
      {"plus sign", WithOffsets("[+0,8]"), 8, "not JSON"},
      {"hexadecimal", WithOffsets("[0,0x8]"), 8, "not JSON"},
      {"number out of every range", R"({"a":1e999})", 0, "not JSON"},
      {"byte order mark within", "{\xEF\xBB\xBF}", 0, "not JSON"},
      {"UTF-16", "{\0}\0"s, 0, "zero byte"},
      {"byte order mark of UTF-16", "\xFF\xFE{\0}\0"s, 0, "begin"},
      {"trailing comma in an entry", R"({"a":{"dtype":"U8",}})", 0, "not JSON"},
      {"two commas", R"({"__metadata__":{},,"a":{}})", 0, "not JSON"},
      {"leading comma", R"({,"__metadata__":{}})", 0, "not JSON"},
      {"no colon", R"({"a" {}})", 0, "not JSON"},
      {"closed twice", "{}}", 0, "not JSON"},
      {"closed as an array", R"({"__metadata__":{]})", 0, "not JSON"},
      {"line comment", "{}//", 0, "not JSON"},
      {"trailing form feed", "{}\f", 0, "not JSON"},
      {"overlong UTF-8", "{\"\xC0\xAF\":1}", 0, "not JSON"},
      {"surrogate in UTF-8", "{\"\xED\xA0\x80\":1}", 0, "not JSON"},
      {"half a character", "{\"\xE2\x82\":1}", 0, "not JSON"},
      {"beyond Unicode", "{\"\xF4\x90\x80\x80\":1}", 0, "not JSON"},
      {"not UTF-8 in metadata", "{\"__metadata__\":{\"a\":\"\xFF\"}}", 0, "not JSON"},
      {"not UTF-8 in a dtype", "{\"a\":{\"dtype\":\"\x80\"}}", 0, "not JSON"},
      {"second half of a pair first", R"({"\ude00\ud83d":1})", 0, "not JSON"},
      {"unknown escape", R"({"\x61":1})", 0, "not JSON"},
      {"short escape", R"({"\u006":1})", 0, "not JSON"},
      {"open escape", R"({"a\)", 0, "not JSON"},
  });
}

TEST(SafetensorsHeaderTest, RefusesDeepNestingWithoutFollowingIt) {
  const std::string deep(1'000'000, '[');
  ExpectRefused({
      {"in a name's place", "{" + deep, 0, "not JSON"},
      {"as an entry", R"({"bad":)" + deep, 0, "bad"},
      {"as a shape", R"({"bad":{"shape":)" + deep, 0, "bad"},
      {"as an unknown field", R"({"bad":{"more":)" + deep, 0, "nested"},
  });
}

TEST(SafetensorsHeaderTest, ShortensNamesInMessages) {
  const std::string name = "bad." + std::string(4000, 'x');
  const auto entries = ParseSafetensorsHeader(Header({Entry(name, 4, 8)}), Bytes(8));
  ASSERT_FALSE(entries.ok());
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr("bad.xxx"));
  EXPECT_LT(entries.status().message().size(), 300u);
  ExpectRefused(BrokenRow{"4097 bytes", Header({Entry(std::string(4097, 'x'), 0, 4)}), 4, "4096"});
  ExpectRefused(
      BrokenRow{"control characters", Header({Entry(R"(b\n\u0000\u001bd)", 4, 8)}), 8, "b???d"});
}

struct LoadRow {
  const char* why;
  std::string header;
  uint64_t payload;
  size_t tensors;
};

// Field cases 24 to 28.
TEST(SafetensorsHeaderTest, LoadsWhatTheFormatAllows) {
  const std::string scalar = R"("s":{"dtype":"F32","shape":[],"data_offsets":[0,4]})";
  for (
      const LoadRow& row : std::vector<LoadRow>{
          {"no tensors", "{}", 0, 0},
          {"metadata only", R"({"__metadata__":{"format":"pt"}})", 0, 0},
          {"empty metadata", R"({"__metadata__":{}})", 0, 0},
          {"null metadata", R"({"__metadata__":null})", 0, 0},
          {"metadata last", Header({Entry("a", 0, 4), R"("__metadata__":{"a":"b"})"}), 4, 1},
          {"padded with spaces", Header({Entry("a", 0, 4)}) + std::string(100, ' '), 4, 1},
          {"padded with nothing but spaces", "{}" + std::string(64, ' '), 0, 0},
          {"JSON order is not the order of offsets",
           Header({Entry("c", 8, 12), Entry("a", 4, 8), Entry("b", 0, 4)}), 12, 3},
          {"spaces and lines between tokens",
           "{\n\t\"a\" : { \"dtype\" : \"U8\" ,\r\n\"shape\":[ 4 ], \"data_offsets\":[ 0 , 4 ] } }",
           4, 1},
          {"line ends beside quotes and backslashes",
           "{\n\"\\\"\"\t:{\"dtype\"\n:\"U8\",\"\\\\\"\n:\"\\\\\\\"\"\n,\"shape\":[\n4],"
           "\"data_offsets\":\r\n[0,4]}\n}\n",
           4, 1},
          {"fields in any order", R"({"a":{"data_offsets":[0,4],"shape":[4],"dtype":"U8"}})", 4, 1},
          {"unknown fields",
           R"({"a":{"new":{"x":[1,{"y":null}],"dtype":"F7"},"dtype":"U8","z":-1.5,"shape":[4],)"
           R"("w":"F7","data_offsets":[0,4],"v":[],"u":{}}})",
           4, 1},
          {"one element", Header({scalar}), 4, 1},
          {"no bytes first", Header({Entry("z", 0, 0), Entry("a", 0, 4)}), 4, 2},
          {"no bytes between", Header({Entry("a", 0, 4), Entry("z", 4, 4), Entry("b", 4, 8)}), 8,
           3},
          {"no bytes last", Header({Entry("a", 0, 4), Entry("z", 4, 4)}), 4, 2},
          {"several without bytes at one offset",
           Header({Entry("x", 4, 4), Entry("a", 0, 4), Entry("y", 4, 4), Entry("b", 4, 8),
                   Entry("z", 4, 4)}),
           8, 5},
          {"only tensors without bytes", Header({Entry("x", 0, 0), Entry("y", 0, 0)}), 0, 2},
          {"a zero among extents", R"({"a":{"dtype":"F64","shape":[2,0,3],"data_offsets":[0,0]}})",
           0, 1},
          {"U8 [3], then F32 [4]",
           Header({Entry("a", 0, 3), R"("b":{"dtype":"F32","shape":[4],"data_offsets":[3,19]})"}),
           19, 2},
          {"packed elements", R"({"a":{"dtype":"F4","shape":[2,8],"data_offsets":[0,8]}})", 8, 1},
          {"escaped names", Header({Entry(R"(\u00e9\n\"\\\ud83d\ude00)", 0, 4)}), 4, 1},
          {"names beyond ASCII", Header({Entry("\xC3\xA9", 0, 4)}), 4, 1},
          {"an empty name", Header({Entry("", 0, 4)}), 4, 1},
          {"a name like a field", Header({Entry("dtype", 0, 4), Entry("shape", 4, 8)}), 8, 2},
          {"names like metadata",
           Header({Entry("__metadata__ ", 0, 1), Entry("__METADATA__", 1, 2),
                   Entry("__metadata_", 2, 3), Entry("_metadata__", 3, 4),
                   Entry("__metadata__\\u0000", 4, 5), Entry("__metadata__.a", 5, 6)}),
           6, 6},
          {"metadata whose name is escaped", R"({"\u005f_metadata__":{"a":"b"}})", 0, 0},
          {"metadata like a tensor", R"({"__metadata__":{"dtype":"U8","shape":"[]"}})", 0, 0},
          {"control characters in names, escaped",
           Header({Entry(R"(\u0000)", 0, 1), Entry(R"(\u0000\u0000)", 1, 2),
                   Entry(R"(\u001b[2J)", 2, 3), Entry("\x7F", 3, 4), Entry(R"(\u202e)", 4, 5)}),
           5, 5},
          {"names that differ in composition alone",
           Header({Entry("\xC3\xA9", 0, 1), Entry("e\xCC\x81", 1, 2)}), 2, 2},
          {"the longest name", Header({Entry(std::string(4096, 'x'), 0, 4)}), 4, 1},
          {"a name like a path", Header({Entry("../../etc/passwd", 0, 4)}), 4, 1},
          {"escaped keys and dtype",
           R"({"a":{"dtyp\u0065":"U\u0038","shap\u0065":[4],"data_offset\u0073":[0,4]}})", 4, 1},
          {"much metadata",
           absl::StrCat(R"({"__metadata__":{"a":")", std::string(1'000'000, 'x'), "\"}}"), 0, 0},
          {"odd values in unknown fields",
           R"({"a":{"x":-0,"y":0.1e-7,"z":123456789012345678901234567890,"dtype":"U8","shape":[4],)"
           R"("data_offsets":[0,4],"more":{"dtype":7,"shape":[[]],"data_offsets":null}}})",
           4, 1},
      }) {
    const auto entries = ParseSafetensorsHeader(row.header, Bytes(row.payload));
    ASSERT_TRUE(entries.ok()) << row.why << ": " << entries.status();
    EXPECT_EQ(entries->size(), row.tensors) << row.why;
  }
}

// Field case 28.
TEST(SafetensorsHeaderTest, PassesNameDtypeShapeAndRangeThrough) {
  for (const char* name :
       {"BOOL",    "F4",          "F6_E2M3",     "F6_E3M2", "U8",  "I8",  "F8_E5M2", "F8_E4M3",
        "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I16",     "U16", "F16", "BF16",    "I32",
        "U32",     "F32",         "C64",         "F64",     "I64", "U64"}) {
    const TensorSpec spec{.name = "layer.\"0\"", .dtype = *ParseDType(name), .shape = {2, 8}};
    const Bytes size = *TensorBytes(spec);
    const auto entries = ParseSafetensorsHeader(SafetensorsHeader({spec}), size);
    ASSERT_TRUE(entries.ok()) << name << ": " << entries.status();
    ASSERT_EQ(entries->size(), 1u);
    EXPECT_EQ(entries->front().spec, spec);
    EXPECT_EQ(entries->front().range, Range(Bytes(0), size));
  }
}

// Field case 23. The bound is a guard against quadratic time, a hundred times what it takes.
TEST(SafetensorsHeaderTest, ReadsTwoHundredThousandTensorsInBoundedTime) {
  constexpr size_t kTensors = 200'000;
  std::vector<TensorSpec> specs;
  for (size_t i = 0; i < kTensors; ++i) {
    specs.push_back({absl::StrCat("tensor.", i), DType::kF32, {1}});
  }
  const std::string header = SafetensorsHeader(specs);
  const SteadyClock clock;
  const Instant start = clock.Now();
  const auto entries = ParseSafetensorsHeader(header, Bytes(4 * kTensors));
  EXPECT_LT(clock.Now() - start, std::chrono::seconds(60));
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->size(), kTensors);
}

// Whatever is cut out of a header or changed in it, the parser answers.
TEST(SafetensorsHeaderTest, AnyByteMayBeMissingOrWrong) {
  const std::string header =
      R"({"__metadata__":{"f":"pt"},"a":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]},)"
      R"("b\u0061":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  ASSERT_TRUE(ParseSafetensorsHeader(header, Bytes(9)).ok());
  for (size_t i = 0; i < header.size(); ++i) {
    EXPECT_FALSE(ParseSafetensorsHeader(header.substr(0, i), Bytes(9)).ok()) << i;
    for (int byte = 0; byte < 256; ++byte) {
      std::string changed = header;
      changed[i] = static_cast<char>(byte);
      const auto entries = ParseSafetensorsHeader(changed, Bytes(9));
      if (!entries.ok()) continue;
      for (const HeaderEntry& entry : *entries) {
        ASSERT_EQ(entry.range.size(), *TensorBytes(entry.spec)) << changed;
        ASSERT_LE(entry.range.end(), Bytes(9)) << changed;
      }
    }
  }
}

}  // namespace
}  // namespace tenure
