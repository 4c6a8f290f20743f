#include "core/checkpoint/safetensors.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "core/base/clock.h"
#include "tests/support/safetensors_writer.h"

namespace tenure {
namespace {

using testing::HasSubstr;

struct BrokenRow {
  const char* why;
  std::string header;
  uint64_t payload;
  const char* named;  // what the message must name
  Reason reason = Reason::kInvalidCheckpoint;
};

void ExpectRefused(const BrokenRow& row) {
  const auto entries = ParseSafetensorsHeader(row.header, Bytes(row.payload));
  ASSERT_FALSE(entries.ok()) << row.why;
  EXPECT_TRUE(HasReason(entries.status(), row.reason)) << row.why << ": " << entries.status();
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr(row.named)) << row.why;
}

void ExpectRefused(const std::vector<BrokenRow>& rows) {
  for (const BrokenRow& row : rows) ExpectRefused(row);
}

// One F32 tensor `bad` with these offsets.
std::string WithOffsets(const std::string& offsets) {
  return absl::StrCat(R"({"bad":{"dtype":"F32","shape":[2],"data_offsets":)", offsets, "}}");
}

std::string WithShape(const std::string& shape) {
  return absl::StrCat(R"({"bad":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,8]}})");
}

// A U8 vector.
std::string Entry(const std::string& name, uint64_t begin, uint64_t end) {
  return absl::StrCat("\"", name, R"(":{"dtype":"U8","shape":[)", end - begin,
                      R"(],"data_offsets":[)", begin, ",", end, "]}");
}

std::string Header(const std::vector<std::string>& entries) {
  std::string header = "{";
  for (const std::string& entry : entries) {
    absl::StrAppend(&header, header.size() > 1 ? "," : "", entry);
  }
  return header + "}";
}

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesOffsetsThatAreNotTwoNonNegativeIntegers) {
  for (const char* offsets :
       {"[0]", "[]", "[0,4,8]", "[0.0,8.0]", "[0,8.0]", "[0,8e0]", "[-1,8]", "[-0,8]",
        R"(["0","8"])", R"("0,8")", "null", "8", "{}", R"({"begin":0,"end":8})", "[null,8]",
        "[[0,8]]", "[true,false]", "[0,18446744073709551616]", "[0,99999999999999999999999999]"}) {
    ExpectRefused(BrokenRow{offsets, WithOffsets(offsets), 8, "bad"});
  }
}

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesOffsetsThatLeadOutOfThePayload) {
  for (const char* offsets : {"[8,0]", "[0,9223372036854775808]", "[0,18446744073709551615]",
                              "[9223372036854775808,9223372036854775816]", "[8,16]",
                              "[18446744073709551608,18446744073709551615]", "[4,12]"}) {
    ExpectRefused(BrokenRow{offsets, WithOffsets(offsets), 8, "bad"});
  }
}

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesARangeThatIsNotTheSizeOfTheTensor) {
  for (const char* offsets : {"[0,4]", "[0,0]", "[0,7]"}) {
    ExpectRefused(BrokenRow{offsets, WithOffsets(offsets), 8, "bad"});
  }
  for (const char* shape : {"[]", "[0]", "[1]", "[3]", "[2,2]", "[2,0]"}) {
    ExpectRefused(BrokenRow{shape, WithShape(shape), 8, "bad"});
  }
}

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesAShapeThatIsNotAnArrayOfNonNegativeIntegers) {
  for (const char* shape : {"2", "null", R"("2")", "{}", "[-2]", "[2.0]", "[\"2\"]", "[[2]]",
                            "[null]", "[2,true]", "[18446744073709551616]"}) {
    ExpectRefused(BrokenRow{shape, WithShape(shape), 8, "bad"});
  }
}

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesAShapeWhoseProductOverflows) {
  for (const char* shape : {"[4611686018427387906]", "[4294967296,4294967296]",
                            "[18446744073709551615,2]", "[2305843009213693953,8]"}) {
    ExpectRefused(BrokenRow{shape, WithShape(shape), 8, "bad"});
  }
}

// Field case 24.
TEST(SafetensorsHeaderTest, RefusesTensorsThatDoNotTileThePayload) {
  ExpectRefused({
      {"same range twice", Header({Entry("a", 0, 8), Entry("b", 0, 8)}), 8, "b"},
      {"partial overlap", Header({Entry("a", 0, 8), Entry("bad", 4, 12)}), 12, "bad"},
      {"one within another", Header({Entry("a", 0, 8), Entry("bad", 2, 4)}), 8, "bad"},
      {"no bytes, but within another", Header({Entry("a", 0, 8), Entry("bad", 4, 4)}), 8, "bad"},
      {"hole at the start", Header({Entry("bad", 4, 8)}), 8, "bad"},
      {"hole in the middle", Header({Entry("a", 0, 4), Entry("bad", 6, 8)}), 8, "bad"},
      {"hole at the end", Header({Entry("a", 0, 4), Entry("bad", 4, 6)}), 8, "bad"},
      {"trailing bytes", Header({Entry("bad", 0, 8)}), 9, "bad"},
      {"payload ends early", Header({Entry("a", 0, 8), Entry("bad", 8, 16)}), 15, "bad"},
      {"bytes without a tensor", "{}", 1, "data without a tensor"},
      {"bytes of tensors without any", Header({Entry("bad", 0, 0)}), 1, "bad"},
  });
}

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
  });
}

TEST(SafetensorsHeaderTest, RefusesMetadataThatDoesNotMapStringsToStrings) {
  for (const char* metadata : {"[]", "1", R"("x")", "true", R"({"a":1})", R"({"a":null})",
                               R"({"a":{}})", R"({"a":["b"]})"}) {
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
      {"not UTF-8", "{\"\xFF\":1}", 0, "not JSON"},
      {"half a surrogate pair", R"({"\ud800":1})", 0, "not JSON"},
      {"NaN", R"({"__metadata__":NaN})", 0, "not JSON"},
      {"leading zero", WithOffsets("[00,8]"), 8, "not JSON"},
      {"plus sign", WithOffsets("[+0,8]"), 8, "not JSON"},
      {"hexadecimal", WithOffsets("[0,0x8]"), 8, "not JSON"},
      {"number out of every range", R"({"a":1e999})", 0, "not JSON"},
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

// Field case 28.
TEST(SafetensorsHeaderTest, RefusesADtypeOfALaterFormatNamingTensorAndDtype) {
  const std::string later = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                            R"("new":{"dtype":"F7","shape":[8],"data_offsets":[4,11]}})";
  ExpectRefused({
      {"dtype", later, 11, "F7", Reason::kUnsupportedDtype},
      {"tensor", later, 11, "new", Reason::kUnsupportedDtype},
      {"lower case", R"({"a":{"dtype":"f32","shape":[1],"data_offsets":[0,4]}})", 4, "f32",
       Reason::kUnsupportedDtype},
  });
}

// Field cases 24 and 28: a file that is broken besides is broken.
TEST(SafetensorsHeaderTest, ChecksTheOffsetsOfAnUnknownDtypeAllTheSame) {
  const auto unknown = [](const std::string& offsets) {
    return absl::StrCat(R"({"bad":{"dtype":"F7","shape":[8],"data_offsets":)", offsets, "}}");
  };
  ExpectRefused({
      {"reversed", unknown("[7,0]"), 7, "bad"},
      {"beyond", unknown("[0,8]"), 7, "bad"},
      {"hole", unknown("[1,7]"), 7, "bad"},
      {"trailing bytes", unknown("[0,6]"), 7, "bad"},
      {"negative", unknown("[-1,7]"), 7, "bad"},
  });
}

// Field case 28.
TEST(SafetensorsHeaderTest, RefusesElementsThatEndWithinAByte) {
  ExpectRefused(
      BrokenRow{"F4 [3]", R"({"bad":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2, "bad"});
}

TEST(SafetensorsHeaderTest, ShortensNamesInMessages) {
  const std::string name = "bad." + std::string(4000, 'x');
  const auto entries = ParseSafetensorsHeader(Header({Entry(name, 4, 8)}), Bytes(8));
  ASSERT_FALSE(entries.ok());
  EXPECT_THAT(std::string(entries.status().message()), HasSubstr("bad.xxx"));
  EXPECT_LT(entries.status().message().size(), 300u);
  ExpectRefused(BrokenRow{"5000 bytes", Header({Entry(std::string(5000, 'x'), 0, 4)}), 4, "4096"});
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
