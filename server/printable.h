#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tenure {

// `text` as it may be shown in terminals, logs and protobuf strings: with a '?' for each control
// character and for each byte that is not part of a UTF-8 character.
std::string Printable(std::string_view text);

// The first `most` bytes at most, cut between two UTF-8 characters, with "..." for what is missing:
// protobuf refuses half a character. REQUIRES: most >= 3.
std::string Shorten(std::string_view text, size_t most);

}  // namespace tenure
