#include "core/plan/plan_cache.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/plan/make_plan.h"

namespace tenure {
namespace {

// The nodes of the list and of the map, and what the allocator adds.
constexpr uint64_t kPerPlan = 512;

// Tells nullopt from every value.
template <typename Value>
void AddIfAny(Digester& digester, const std::optional<Value>& value) {
  digester.Add(uint64_t{value.has_value()});
  if (value.has_value()) digester.Add(static_cast<uint64_t>(*value));
}

}  // namespace

Digest128 PlanKey(const PlanInput& input) {
  Digester digester;
  digester.Add(uint64_t{kPlannerVersion});
  digester.Add(input.size());
  for (const PlanBuffer& buffer : input) {
    digester.Add(buffer.id);
    digester.Add(buffer.size.count());
    digester.Add(buffer.alignment.count());
    digester.Add(static_cast<uint64_t>(buffer.first_use));
    AddIfAny(digester, buffer.end);
    digester.Add(buffer.gaps.size());
    for (const Lifespan& gap : buffer.gaps) {
      digester.Add(static_cast<uint64_t>(gap.begin));
      digester.Add(static_cast<uint64_t>(gap.end));
    }
    digester.Add(uint64_t{buffer.output});
    digester.Add(uint64_t{buffer.fixed_offset.has_value()});
    digester.Add(buffer.fixed_offset.value_or(Bytes(0)).count());
    AddIfAny(digester, buffer.alias_group);
  }
  return digester.Finish();
}

std::shared_ptr<const StoredPlan> PlanCache::Find(const Digest128& key, const PlanInput& input,
                                                  Duration budget) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return nullptr;
  const Entry& entry = *found->second;
  if (*entry.plan->input != input) return nullptr;
  if (!entry.plan->proven && entry.budget < budget) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entry.plan;
}

std::shared_ptr<const StoredPlan> PlanCache::Put(const Digest128& key,
                                                 std::shared_ptr<const StoredPlan> plan,
                                                 Duration budget) {
  if (const auto found = by_key_.find(key); found != by_key_.end()) {
    const Entry& known = *found->second;
    if (*known.plan->input == *plan->input && known.plan->height < plan->height) {
      plan = known.plan;
      budget = std::max(budget, known.budget);
    }
    Erase(found->second);
  }
  const Bytes needed = BytesOf(*plan);
  if (needed > most_) return plan;
  while (bytes_ > most_ - needed) Erase(std::prev(entries_.end()));
  entries_.push_front({.key = key, .plan = plan, .budget = budget});
  by_key_.emplace(key, entries_.begin());
  bytes_ += needed;
  return plan;
}

Bytes PlanCache::BytesOf(const StoredPlan& plan) {
  uint64_t bytes = kPerPlan + plan.offsets.capacity() * sizeof(Bytes) +
                   plan.input->capacity() * sizeof(PlanBuffer);
  for (const PlanBuffer& buffer : *plan.input) {
    bytes += buffer.gaps.capacity() * sizeof(Lifespan);
    if (buffer.id.capacity() >= sizeof(std::string)) bytes += buffer.id.capacity() + 1;
  }
  return Bytes(bytes);
}

void PlanCache::Validate() const {
  TENURE_CHECK(by_key_.size() == entries_.size());
  Bytes sum;
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    const auto found = by_key_.find(entry->key);
    TENURE_CHECK(found != by_key_.end() && &*found->second == &*entry);
    TENURE_CHECK(entry->key == PlanKey(*entry->plan->input));
    sum += BytesOf(*entry->plan);
  }
  TENURE_CHECK(sum == bytes_ && bytes_ <= most_);
}

void PlanCache::Erase(Entries::iterator entry) {
  bytes_ -= BytesOf(*entry->plan);
  by_key_.erase(entry->key);
  entries_.erase(entry);
}

}  // namespace tenure
