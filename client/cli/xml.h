#pragma once

#include <string>
#include <string_view>

namespace tenure::cli {

// `text` as an XML file may have it between tags, whatever it is: markup escaped, and what is no
// UTF-8 or no character of XML replaced by U+FFFD.
std::string XmlText(std::string_view text);

}  // namespace tenure::cli
