#include "client/cli/xml.h"

#include <array>
#include <cstdint>

namespace tenure::cli {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// How many bytes the character at the beginning of `text` has; 0 if XML has no such character.
size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<uint8_t>(text[i])); };
  const uint32_t first = byte(0);
  if (first < 0x80) return first >= 0x20 || first == '\t' ? 1 : 0;
  // What a lead byte holds of its character, by how many bytes follow, and the least such one.
  constexpr std::array<uint32_t, 4> kLeast = {0, 0x80, 0x800, 0x10000};
  const size_t more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  if (first < 0xC0 || first >= 0xF8 || text.size() <= more) return 0;
  uint32_t character = first & (0x3FU >> more);
  for (size_t i = 1; i <= more; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    character = character << 6U | (byte(i) & 0x3FU);
  }
  const bool is_one = character >= kLeast[more] && character <= 0x10FFFF &&
                      (character < 0xD800 || character > 0xDFFF) && character != 0xFFFE &&
                      character != 0xFFFF;
  return is_one ? more + 1 : 0;
}

}  // namespace

std::string XmlText(std::string_view text) {
  std::string xml;
  xml.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    if (length == 0) {
      xml += kReplacement;
    } else if (text.front() == '&') {
      xml += "&amp;";
    } else if (text.front() == '<') {
      xml += "&lt;";
    } else if (text.front() == '>') {
      xml += "&gt;";
    } else {
      xml += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return xml;
}

}  // namespace tenure::cli
