#pragma once

#include <list>
#include <memory>
#include <unordered_map>
#include <vector>

#include "core/base/clock.h"
#include "core/base/digest.h"
#include "core/base/units.h"
#include "core/plan/plan_input.h"

namespace tenure {

// A Plan with the input that it is for, by buffer instead of by storage.
struct StoredPlan {
  std::shared_ptr<const PlanInput> input;  // never null
  std::vector<Bytes> offsets{};
  Bytes height{};
  Bytes lower_bound{};
  bool proven = false;
  Duration seconds{0};
};

// Of the input as it was given, in its order, and of kPlannerVersion. Inputs that differ have
// different keys, unless there is a collision.
Digest128 PlanKey(const PlanInput& input);

// The plans that were asked for last, by input. Knows the memory that they take:
//   bytes = the sum of BytesOf its plans <= most
// A proven plan is there for any budget. Another one is there for budgets no larger than the one it
// was made with. Which capacity a plan is to fit does not count. Thread-compatible.
class PlanCache {
 public:
  explicit PlanCache(Bytes most) : most_(most) {}

  // Null if there is none that is good enough. What is found leaves last.
  // REQUIRES: `key` is PlanKey(input), here and below.
  std::shared_ptr<const StoredPlan> Find(const Digest128& key, const PlanInput& input,
                                         Duration budget);

  // Keeps a plan that was made with `budget`, in place of one of the same input unless that is
  // lower. Those that were not asked for longest leave; one that is larger than all of the cache is
  // not kept. Returns the plan that is best now.
  std::shared_ptr<const StoredPlan> Put(const Digest128& key,
                                        std::shared_ptr<const StoredPlan> plan, Duration budget);

  // With all that it needs, nearly.
  static Bytes BytesOf(const StoredPlan& plan);

  Bytes bytes() const { return bytes_; }
  size_t size() const { return entries_.size(); }

  // CHECKs what is said above.
  void Validate() const;

 private:
  struct Entry {
    Digest128 key;
    std::shared_ptr<const StoredPlan> plan;
    Duration budget;
  };
  using Entries = std::list<Entry>;

  void Erase(Entries::iterator entry);

  const Bytes most_;
  Entries entries_;  // what was asked for last stands first
  std::unordered_map<Digest128, Entries::iterator> by_key_;
  Bytes bytes_;
};

}  // namespace tenure
