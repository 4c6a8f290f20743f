#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tenure::cli {

// The one of `known` that `word` was most likely meant to be: with the fewest letters to be
// changed, added, left out or swapped with the next, the first of equals. Empty if that is more
// than a third of the word.
std::string NearestOf(const std::vector<std::string>& known, std::string_view word);

}  // namespace tenure::cli
