#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tenure::cli {

// Writes Python's pickle format, protocol 2, as far as dictionaries, lists, strings and numbers
// need it. Containers are begun and ended in turn; between the two of a dictionary come keys, each
// before its value. Thread-compatible.
class PickleWriter {
 public:
  PickleWriter();

  void BeginDictionary();
  void EndDictionary();
  void BeginList();
  void EndList();
  void Key(std::string_view key) { String(key); }
  void String(std::string_view text);  // UTF-8
  void Int(int64_t number);
  void Bool(bool value);

  // The pickle; nothing can be added then. REQUIRES: one value, and everything begun is ended.
  std::string Finish();

 private:
  std::string bytes_;
};

}  // namespace tenure::cli
