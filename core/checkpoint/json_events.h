#pragma once

// The ground on which the two JSON readers of this folder stand. The text is parsed as a stream of
// events, never into a tree, so memory stays proportional to what the reader keeps.

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "core/base/status.h"
#include "core/checkpoint/refusal.h"

namespace tenure {

// Takes nlohmann's events and hands `Reader`, the class that derives from this one, those that it
// must look at: OnUnsigned, OnString, OnNull, OnOther (booleans, negative and floating-point
// numbers), OnObject, OnKey, OnObjectEnd, OnArray, OnArrayEnd. Each returns false, through
// `Refuse`, to end the parse. Between SkipValue() and the end of the next value nothing is handed
// on. Thread-compatible.
template <typename Reader>
class JsonEvents {
 public:
  const Status& error() const { return error_; }

  // The names and signatures that nlohmann::json::sax_parse requires.
  bool null() { return Skipped() || reader().OnNull(); }
  bool boolean(bool) { return Skipped() || reader().OnOther(); }
  bool number_integer(int64_t) { return Skipped() || reader().OnOther(); }
  bool number_unsigned(uint64_t value) { return Skipped() || reader().OnUnsigned(value); }
  bool number_float(double, const std::string&) { return Skipped() || reader().OnOther(); }
  bool string(std::string& text) { return Skipped() || reader().OnString(text); }
  bool binary(nlohmann::json::binary_t&) { return Refuse("not JSON"); }
  bool start_object(size_t) { return skipping_ ? Deeper() : reader().OnObject(); }
  bool key(std::string& name) { return skipping_ || reader().OnKey(name); }
  bool end_object() { return skipping_ ? Shallower() : reader().OnObjectEnd(); }
  bool start_array(size_t) { return skipping_ ? Deeper() : reader().OnArray(); }
  bool end_array() { return skipping_ ? Shallower() : reader().OnArrayEnd(); }
  // nlohmann's own message quotes the text, which may be any bytes and of any length.
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
    return Refuse(absl::StrCat("not JSON at byte ", position));
  }

 protected:
  void SkipValue() { skipping_ = true; }

  bool Refuse(std::string_view what) { return Refuse(Error(Reason::kInvalidCheckpoint, what)); }
  bool Refuse(Status error) {
    error_ = std::move(error);
    return false;
  }

 private:
  static constexpr int kMaxNesting = 100;

  Reader& reader() { return static_cast<Reader&>(*this); }

  // True if a scalar belongs to a skipped value, which it may end.
  bool Skipped() {
    const bool skipped = skipping_;
    if (nesting_ == 0) skipping_ = false;
    return skipped;
  }
  bool Deeper() { return ++nesting_ <= kMaxNesting || Refuse("nested too deeply"); }
  bool Shallower() {
    if (--nesting_ == 0) skipping_ = false;
    return true;
  }

  Status error_;
  bool skipping_ = false;
  int nesting_ = 0;  // objects and arrays open inside the value being skipped
};

// `text` with spaces for the line ends and tabs between its tokens. Those within strings stay: they
// are errors.
inline std::string WithoutLineEnds(std::string_view text) {
  std::string spaced(text);
  bool in_string = false;
  for (size_t i = 0; i < spaced.size(); ++i) {
    const char c = spaced[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (!in_string && (c == '\n' || c == '\r' || c == '\t')) spaced[i] = ' ';
  }
  return spaced;
}

// Runs `reader` over `text`. OK if all of it is one JSON value that the reader accepts. Memory
// beside the reader's own is proportional to the text.
template <typename Reader>
Status ReadJson(std::string_view text, Reader& reader) {
  // nlohmann takes a zero byte for the end of the text and would not see what follows.
  if (text.find('\0') != std::string_view::npos) {
    return Error(Reason::kInvalidCheckpoint, "not JSON: a zero byte");
  }
  // Before an error, nlohmann writes down what it has read since the last string or number, eight
  // characters for each that is no printable one.
  constexpr std::string_view kLineEnds = "\n\r\t";
  const auto has = [text](char c) { return text.find(c) != std::string_view::npos; };
  std::string spaced;
  if (std::any_of(kLineEnds.begin(), kLineEnds.end(), has)) {
    spaced = WithoutLineEnds(text);
    text = spaced;
  }
  if (!nlohmann::json::sax_parse(text.data(), text.data() + text.size(), &reader)) {
    return reader.error();
  }
  return absl::OkStatus();
}

}  // namespace tenure
