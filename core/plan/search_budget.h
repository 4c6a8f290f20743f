#pragma once

#include <cstdint>
#include <limits>

#include "core/base/clock.h"
#include "core/plan/make_plan.h"

namespace tenure {

// What a search may still spend of its PlanLimits. Counts work, which is the same on every machine,
// and looks at the clock once in a while. Thread-compatible.
class SearchBudget {
 public:
  SearchBudget(const PlanLimits& limits, const Clock& clock)
      : clock_(clock),
        start_(clock.Now()),
        deadline_(After(start_, limits.budget)),
        nodes_limit_(limits.nodes.value_or(std::numeric_limits<uint64_t>::max())) {}

  // Counts partial plans and the words that were read for them. False once nothing is left.
  bool Spend(uint64_t nodes, uint64_t words) {
    nodes_ += nodes;
    words_ += words;
    if (nodes_ >= nodes_limit_) spent_ = true;
    if (words_ >= next_look_) Look();
    return !spent_;
  }

  bool spent() const { return spent_; }
  uint64_t nodes() const { return nodes_; }
  uint64_t words() const { return words_; }
  Duration elapsed() const { return clock_.Now() - start_; }

 private:
  // Some 10 us, with what is done for each word.
  static constexpr uint64_t kWordsBetweenLooks = 2048;

  void Look() {
    next_look_ = words_ + kWordsBetweenLooks;
    if (clock_.Now() >= deadline_) spent_ = true;
  }

  const Clock& clock_;
  const Instant start_;
  const Instant deadline_;
  const uint64_t nodes_limit_;
  uint64_t nodes_ = 0;
  uint64_t words_ = 0;
  uint64_t next_look_ = 0;
  bool spent_ = false;
};

}  // namespace tenure
