// Offsets, shapes and dtypes: where a header says that its tensors lie.

#include "tests/core/checkpoint/header_rows.h"

namespace tenure {
namespace {

// Field case 24.
TEST(TensorRangesTest, RefusesOffsetsThatAreNotTwoNonNegativeIntegers) {
  for (const char* offsets : {"[0]",
                              "[]",
                              "[0,4,8]",
                              "[0.0,8.0]",
                              "[0,8.0]",
                              "[0,8e0]",
                              "[-1,8]",
                              "[-0,8]",
                              R"(["0","8"])",
                              R"("0,8")",
                              "null",
                              "8",
                              "{}",
                              R"({"begin":0,"end":8})",
                              "[null,8]",
                              "[[0,8]]",
                              "[true,false]",
                              "[0,18446744073709551616]",
                              "[0,99999999999999999999999999]",
                              "[0,8E0]",
                              "[0,0.8e1]",
                              "[0e0,8]",
                              "[-9223372036854775809,8]",
                              "[0,{}]",
                              "true",
                              "[{},{}]",
                              R"(["",""])"}) {
    ExpectRefused(BrokenRow{offsets, WithOffsets(offsets), 8, "bad"});
  }
}

// Field case 24.
TEST(TensorRangesTest, RefusesOffsetsThatLeadOutOfThePayload) {
  for (const char* offsets : {"[8,0]", "[0,9223372036854775808]", "[0,18446744073709551615]",
                              "[9223372036854775808,9223372036854775816]", "[8,16]",
                              "[18446744073709551608,18446744073709551615]", "[4,12]",
                              "[9223372036854775807,9223372036854775815]", "[8,8]", "[9,9]"}) {
    ExpectRefused(BrokenRow{offsets, WithOffsets(offsets), 8, "bad"});
  }
}

// Field case 24.
TEST(TensorRangesTest, RefusesARangeThatIsNotTheSizeOfTheTensor) {
  for (const char* offsets : {"[0,4]", "[0,0]", "[0,7]"}) {
    ExpectRefused(BrokenRow{offsets, WithOffsets(offsets), 8, "bad"});
  }
  for (const char* shape :
       {"[]", "[0]", "[1]", "[3]", "[2,2]", "[2,0]", "[0,18446744073709551615]"}) {
    ExpectRefused(BrokenRow{shape, WithShape(shape), 8, "bad"});
  }
}

// Field case 24.
TEST(TensorRangesTest, RefusesAShapeThatIsNotAnArrayOfNonNegativeIntegers) {
  for (const char* shape :
       {"2", "null", R"("2")", "{}", "[-2]", "[2.0]", "[\"2\"]", "[[2]]", "[null]", "[2,true]",
        "[18446744073709551616]", "[-0]", "[2e0]", "[{}]", "true", R"([""])", "[2,[]]"}) {
    ExpectRefused(BrokenRow{shape, WithShape(shape), 8, "bad"});
  }
}

// Field case 24.
TEST(TensorRangesTest, RefusesAShapeWhoseProductOverflows) {
  for (const char* shape :
       {"[4611686018427387906]", "[4294967296,4294967296]", "[18446744073709551615,2]",
        "[2305843009213693953,8]", "[2305843009213693952]", "[18446744073709551615,0]"}) {
    ExpectRefused(BrokenRow{shape, WithShape(shape), 8, "bad"});
  }
}

// Field case 23: one tensor must fit in a reply of a list, whatever its shape.
TEST(TensorRangesTest, RefusesMoreExtentsThanAListOfTensorsCanCarry) {
  const auto ones = [](size_t rank) {
    std::string shape = "[2";
    for (size_t i = 1; i < rank; ++i) shape += ",1";
    return WithShape(shape + "]");
  };
  EXPECT_TRUE(ParseSafetensorsHeader(ones(256), Bytes(8)).ok());
  ExpectRefused(BrokenRow{"one more", ones(257), 8, "256 extents in tensor: bad"});
  ExpectRefused(BrokenRow{"a million", ones(1'000'000), 8, "256 extents in tensor: bad"});
}

// Field case 24.
TEST(TensorRangesTest, RefusesNumbersThatAreNotJsonNamingThePlace) {
  for (const char* number : {"08", "+8", "0x8", "8.", ".8", "8e", "8e+", "--8", "8_0", "NaN",
                             "Infinity", "1e999", "8,", ",8", "8 8", "'8'"}) {
    ExpectRefused(BrokenRow{number, WithOffsets(absl::StrCat("[0,", number, "]")), 8, "at byte "});
    ExpectRefused(BrokenRow{number, WithShape(absl::StrCat("[", number, "]")), 8, "at byte "});
  }
}

// Field case 24.
TEST(TensorRangesTest, RefusesTensorsThatDoNotTileThePayload) {
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
      {"no bytes, but beyond a hole", Header({Entry("a", 0, 4), Entry("bad", 6, 6)}), 8, "bad"},
      {"a hole of tensors out of order", Header({Entry("bad", 8, 12), Entry("a", 0, 4)}), 12,
       "bad"},
      {"each but a byte too late", Header({Entry("bad", 1, 5), Entry("b", 5, 9)}), 9, "bad"},
      {"the whole file once more",
       Header({Entry("a", 0, 4), Entry("b", 4, 8), Entry("whole", 0, 8)}), 8, "overlaps"},
  });
}

// Field case 28.
TEST(TensorRangesTest, RefusesADtypeOfALaterFormatNamingTensorAndDtype) {
  const std::string later = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
                            R"("new":{"dtype":"F7","shape":[8],"data_offsets":[4,11]}})";
  ExpectRefused({
      {"dtype", later, 11, "F7", Reason::kUnsupportedDtype},
      {"tensor", later, 11, "new", Reason::kUnsupportedDtype},
  });
  for (const std::string dtype :
       {"", "f32", "F32 ", " F32", "F320", "F3", "F4_E2M1", "BOOL8", "F8", "float32"}) {
    ExpectRefused(BrokenRow{
        dtype.c_str(),
        absl::StrCat(R"({"new":{"dtype":")", dtype, R"(","shape":[1],"data_offsets":[0,4]}})"), 4,
        "new", Reason::kUnsupportedDtype});
  }
  const auto entries =
      ParseSafetensorsHeader(absl::StrCat(R"({"new":{"dtype":")", std::string(100'000, 'F'),
                                          R"(\n","shape":[1],"data_offsets":[0,4]}})"),
                             Bytes(4));
  EXPECT_TRUE(HasReason(entries.status(), Reason::kUnsupportedDtype)) << entries.status();
  EXPECT_LT(entries.status().message().size(), 300u);
}

// Field case 25: the largest tensors that a file system can hold, of which no byte is read.
TEST(TensorRangesTest, LoadsTensorsAsLargeAsFilesCanBe) {
  constexpr uint64_t kMost = (uint64_t{1} << 61) - 1;
  const std::string header = Header(
      {Entry("a", 0, kMost), Entry("b", kMost, 2 * kMost), Entry("c", 2 * kMost, 3 * kMost)});
  const auto entries = ParseSafetensorsHeader(header, Bytes(3 * kMost));
  ASSERT_TRUE(entries.ok()) << entries.status();
  EXPECT_EQ(entries->back().range, Range(Bytes(2 * kMost), Bytes(3 * kMost)));
  EXPECT_FALSE(ParseSafetensorsHeader(header, Bytes(3 * kMost - 1)).ok());
}

// Field case 28.
TEST(TensorRangesTest, TakesPackedElementsThatEndWithAByteAndNoOthers) {
  struct Row {
    const char* dtype;
    const char* shape;
    uint64_t bytes;
    bool loads;
  };
  for (const Row& row :
       {Row{"F4", "[2]", 1, true},         Row{"F4", "[3]", 2, false},
        Row{"F4", "[3]", 1, false},        Row{"F4", "[]", 1, false},
        Row{"F4", "[1,3,5]", 8, false},    Row{"F4", "[3,2]", 3, true},
        Row{"F4", "[0,3]", 0, true},       Row{"F6_E2M3", "[4]", 3, true},
        Row{"F6_E2M3", "[2]", 2, false},   Row{"F6_E2M3", "[2,2,3]", 9, true},
        Row{"F6_E3M2", "[1]", 1, false},   Row{"F6_E3M2", "[]", 1, false},
        Row{"F6_E3M2", "[3]", 3, false},   Row{"F8_E8M0", "[3]", 3, true},
        Row{"BOOL", "[9]", 2, false},      Row{"BOOL", "[9]", 9, true},
        Row{"C64", "[3]", 24, true},       Row{"C64", "[3]", 12, false},
        Row{"F8_E4M3FNUZ", "[]", 1, true}, Row{"F4", "[4611686018427387904]", 0, false}}) {
    const std::string header = absl::StrCat(R"({"bad":{"dtype":")", row.dtype, R"(","shape":)",
                                            row.shape, R"(,"data_offsets":[0,)", row.bytes, "]}}");
    if (row.loads) {
      EXPECT_TRUE(ParseSafetensorsHeader(header, Bytes(row.bytes)).ok()) << header;
    } else {
      ExpectRefused(BrokenRow{header.c_str(), header, row.bytes, "bad"});
    }
  }
}

// Field cases 24 and 28: a file that is broken besides is broken.
TEST(TensorRangesTest, ChecksTheOffsetsOfAnUnknownDtypeAllTheSame) {
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

}  // namespace
}  // namespace tenure
