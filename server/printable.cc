#include "server/printable.h"

#include <cstdint>

namespace tenure {
namespace {

// How many bytes the UTF-8 character at the begin of `text` has; 0 if there is none: not the
// shortest form, a surrogate, beyond U+10FFFF, or cut off.
size_t CharacterBytes(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return 0;
  uint32_t code = lead & (0x7Fu >> bytes);
  for (const char c : text.substr(1, bytes - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80) return 0;
    code = code << 6 | (byte & 0x3Fu);
  }
  const uint32_t least = bytes == 4 ? 0x10000 : bytes == 3 ? 0x800 : 0x80;
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < least || code > 0x10FFFF || surrogate ? 0 : bytes;
}

bool IsControl(std::string_view character) {
  const auto byte = static_cast<unsigned char>(character.front());
  return character.size() == 1 && (byte < 0x20 || byte == 0x7F);
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    const bool shown = bytes > 0 && !IsControl(text.substr(0, bytes));
    printable += shown ? text.substr(0, bytes) : "?";
    text.remove_prefix(bytes > 0 ? bytes : 1);
  }
  return printable;
}

std::string Shorten(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace tenure
