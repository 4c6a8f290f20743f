#include "client/cpp/plan_cache.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// What is kept, in buffers of all plans: some tens of MiB.
constexpr size_t kMostBuffers = 200'000;

// A multiplication of 128 bits, as wyhash mixes.
uint64_t Fold(uint64_t a, uint64_t b) {
  const auto product =
      static_cast<unsigned __int128>(a ^ 0x9e3779b97f4a7c15u) * (b ^ 0xe7037ed1a0b428dbu);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

template <typename Word>
uint64_t Load(const char* from) {
  Word word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

// Whatever the length, with loads of a constant size, which may overlap.
uint64_t DigestOf(std::string_view text) {
  const char* at = text.data();
  const size_t size = text.size();
  uint64_t digest = size;
  if (size >= 8) {
    const char* const last = at + size - 8;
    for (; at < last; at += 8) digest = Fold(digest, Load<uint64_t>(at));
    return Fold(digest, Load<uint64_t>(last));
  }
  if (size >= 4) return Fold(digest, Load<uint32_t>(at) << 32 | Load<uint32_t>(at + size - 4));
  for (const char letter : text) digest = digest << 8 | static_cast<unsigned char>(letter);
  return Fold(digest, 0);
}

}  // namespace

uint64_t DigestOf(std::span<const BufferUse> uses) {
  uint64_t digest = uses.size();
  for (const BufferUse& use : uses) {
    // Only the last step of each waits for the buffer before.
    const uint64_t group = use.alias_group.has_value() ? uint64_t{*use.alias_group} + 1 : 0;
    uint64_t gaps = use.gaps.size();
    for (const StepRange& gap : use.gaps) {
      gaps = Fold(gaps ^ static_cast<uint64_t>(gap.begin), static_cast<uint64_t>(gap.end));
    }
    const uint64_t steps =
        Fold(static_cast<uint64_t>(use.first_use), static_cast<uint64_t>(use.end.value_or(-1)));
    const uint64_t size = Fold(use.bytes, use.alignment);
    const uint64_t rest = Fold(group << 1 | (use.output ? 1 : 0), gaps);
    digest = Fold(digest ^ DigestOf(use.id), Fold(steps ^ size, rest));
  }
  return digest;
}

absl::StatusOr<std::shared_ptr<const PlanState>> PlanCache::Plan(const std::vector<BufferUse>& uses,
                                                                 std::optional<Duration> budget,
                                                                 Deadline deadline,
                                                                 const std::stop_token& cancel) {
  const uint64_t digest = DigestOf(uses);
  std::shared_ptr<const PlanState> plan = Find(digest, budget);
  if (plan != nullptr && plan->uses() == uses) return plan;
  const PlanInput input = InputOf(uses);
  // Nobody has to be asked about what makes no sense.
  if (const auto problem = MakePlanProblem(input); !problem.ok()) {
    return ToClientError(problem.status());
  }
  TENURE_CLIENT_ASSIGN_OR_RETURN(const MadePlan made, planner_(input, budget, deadline, cancel));
  TENURE_CLIENT_ASSIGN_OR_RETURN(plan, PlanState::Make(uses, input, made));
  Add({.digest = digest, .budget = budget, .plan = plan});
  return plan;
}

std::shared_ptr<const PlanState> PlanCache::Find(uint64_t digest, std::optional<Duration> budget) {
  const std::lock_guard lock(mutex_);
  const auto found = by_digest_.find(digest);
  if (found == by_digest_.end()) return nullptr;
  const Entry& entry = *found->second;
  const bool looked = !entry.budget.has_value() || (budget.has_value() && *budget <= *entry.budget);
  if (!looked && !entry.plan->proven()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return entry.plan;
}

void PlanCache::Add(Entry entry) {
  const std::lock_guard lock(mutex_);
  const auto forget = [this](std::list<Entry>::iterator gone) {
    buffers_ -= gone->plan->uses().size();
    by_digest_.erase(gone->digest);
    entries_.erase(gone);
  };
  // Two of a digest, if ever, take turns.
  if (const auto found = by_digest_.find(entry.digest); found != by_digest_.end()) {
    forget(found->second);
  }
  buffers_ += entry.plan->uses().size();
  entries_.push_front(std::move(entry));
  by_digest_[entries_.front().digest] = entries_.begin();
  while (buffers_ > kMostBuffers && entries_.size() > 1) forget(std::prev(entries_.end()));
}

}  // namespace tenure::client
