#include "server/printable.h"

#include <gtest/gtest.h>

namespace tenure {
namespace {

TEST(PrintableTest, LeavesTextAlone) {
  for (const char* text :
       {"", "a/b-1.safetensors", "größe 模型 🙂", "\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, ReplacesControlCharacters) {
  EXPECT_EQ(Printable("a\nb\x1b[2J\x7f\t"), "a?b?[2J??");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a?b");
}

TEST(PrintableTest, ReplacesEachByteThatIsNoUtf8) {
  struct Case {
    const char* text;
    const char* printable;
  };
  const Case kCases[] = {
      {"a\xFF"
       "b",
       "a?b"},
      {"\x80", "?"},                 // continues nothing
      {"\xC0\xAF", "??"},            // '/' in two bytes
      {"\xE0\x80\xAF", "???"},       // '/' in three
      {"\xED\xA0\x80", "???"},       // half of a surrogate pair
      {"\xF4\x90\x80\x80", "????"},  // beyond the last character
      {"\xE6\xA8", "??"},            // cut off
      {"\xE6\xA8z", "??z"},          // cut off by another character
      {"\xC3\xB6\xC3", "\xC3\xB6?"},
  };
  for (const Case& each : kCases) EXPECT_EQ(Printable(each.text), each.printable);
}

TEST(PrintableTest, ShortensBetweenTwoCharacters) {
  EXPECT_EQ(Shorten("größe", 20), "größe");
  EXPECT_EQ(Shorten("größe", 7), "größe");
  EXPECT_EQ(Shorten("größe", 6), "gr...");
  EXPECT_EQ(Shorten("abcdef", 5), "ab...");
}

}  // namespace
}  // namespace tenure
