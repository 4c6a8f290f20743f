#pragma once

#include <string>
#include <string_view>

namespace tenure {

// `text` as it may be shown in terminals, logs and protobuf strings: with a '?' for each control
// character and for each byte that is not part of a UTF-8 character.
std::string Printable(std::string_view text);

}  // namespace tenure
