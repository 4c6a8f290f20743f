#pragma once

#include <iosfwd>
#include <string_view>

namespace tenure::cli {

// Tells the five usual causes of an out-of-memory and what to do about each; the one that `reason`,
// as in errors.h, stands for is marked.
void PrintCauses(std::ostream& out, std::string_view reason);

}  // namespace tenure::cli
