#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tenure {

// One reading of a daemon's /metrics, of which the daemon has one Device. Thread-compatible.
class Scrape {
 public:
  // Reads `http://ADDRESS/metrics`. Throws std::runtime_error if nobody answers.
  static Scrape Of(const std::string& address);

  // The sum over all series of this name whose labels contain `label`, as it is written there:
  // `state="idle"`. Throws std::runtime_error if there is none.
  uint64_t Value(std::string_view name, std::string_view label = {}) const;
  // Bytes of an arena in a state of the ledger.
  uint64_t Memory(std::string_view state, std::string_view arena = "weights") const;
  size_t series_count() const { return lines_.size(); }

  // Which equation of the ledger does not hold, of either arena; empty if all do.
  std::string Imbalance() const;

 private:
  std::string ImbalanceOf(const std::string& arena) const;

  std::vector<std::string> lines_;  // "name{labels} value"
};

}  // namespace tenure
