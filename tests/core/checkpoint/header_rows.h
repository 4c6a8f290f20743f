#pragma once

// Safetensors headers, mostly broken ones, in rows: what they are, and what their refusal must
// name.

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "core/checkpoint/safetensors.h"

namespace tenure {

struct BrokenRow {
  const char* why;
  std::string header;
  uint64_t payload;
  const char* named;  // what the message must name
  Reason reason = Reason::kInvalidCheckpoint;
};

inline void ExpectRefused(const BrokenRow& row) {
  const auto entries = ParseSafetensorsHeader(row.header, Bytes(row.payload));
  ASSERT_FALSE(entries.ok()) << row.why;
  EXPECT_TRUE(HasReason(entries.status(), row.reason)) << row.why << ": " << entries.status();
  EXPECT_THAT(std::string(entries.status().message()), testing::HasSubstr(row.named)) << row.why;
}

inline void ExpectRefused(const std::vector<BrokenRow>& rows) {
  for (const BrokenRow& row : rows) ExpectRefused(row);
}

// One F32 tensor `bad` with these offsets.
inline std::string WithOffsets(const std::string& offsets) {
  return absl::StrCat(R"({"bad":{"dtype":"F32","shape":[2],"data_offsets":)", offsets, "}}");
}

inline std::string WithShape(const std::string& shape) {
  return absl::StrCat(R"({"bad":{"dtype":"F32","shape":)", shape, R"(,"data_offsets":[0,8]}})");
}

// A U8 vector.
inline std::string Entry(const std::string& name, uint64_t begin, uint64_t end) {
  return absl::StrCat("\"", name, R"(":{"dtype":"U8","shape":[)", end - begin,
                      R"(],"data_offsets":[)", begin, ",", end, "]}");
}

inline std::string Header(const std::vector<std::string>& entries) {
  std::string header = "{";
  for (const std::string& entry : entries) {
    absl::StrAppend(&header, header.size() > 1 ? "," : "", entry);
  }
  return header + "}";
}

}  // namespace tenure
