#include "client/cli/nearest.h"

#include <algorithm>
#include <cstddef>

namespace tenure::cli {
namespace {

// Words that are longer are no slips of the finger.
constexpr size_t kMostLetters = 64;

// How many letters have to be changed, added, left out or swapped with the next.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> distance(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      size_t& least = distance[i][j];
      if (i == 0 || j == 0) {
        least = i + j;
        continue;
      }
      const size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
      least = std::min(
          {distance[i - 1][j] + 1, distance[i][j - 1] + 1, distance[i - 1][j - 1] + change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least = std::min(least, distance[i - 2][j - 2] + 1);
      }
    }
  }
  return distance[a.size()][b.size()];
}

}  // namespace

std::string NearestOf(const std::vector<std::string>& known, std::string_view word) {
  if (word.size() > kMostLetters) return {};
  std::string nearest;
  size_t least = std::max<size_t>(1, word.size() / 3) + 1;
  for (const std::string& each : known) {
    const size_t distance = Distance(word, each);
    if (distance >= least) continue;
    least = distance;
    nearest = each;
  }
  return nearest;
}

}  // namespace tenure::cli
