#include "client/cpp/plan_cache.h"

#include <cstring>
#include <string_view>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// What is kept, in buffers of all plans: some tens of MiB.
constexpr size_t kMostBuffers = 200'000;

// Mixes words with two multiplications of 128 bits, as wyhash does.
class Mixer {
 public:
  void Add(uint64_t first, uint64_t second) {
    state_ = Fold(state_ ^ first ^ 0x9e3779b97f4a7c15u, second ^ 0xe7037ed1a0b428dbu);
  }
  void Add(std::string_view text) {
    uint64_t words[2];
    const uint64_t length = text.size();
    for (; text.size() > sizeof(words); text.remove_prefix(sizeof(words))) {
      std::memcpy(words, text.data(), sizeof(words));
      Add(words[0], words[1]);
    }
    words[0] = words[1] = 0;
    std::memcpy(words, text.data(), text.size());
    Add(words[0] ^ length << 32, words[1]);
  }
  uint64_t value() const { return Fold(state_, 0x8ebc6af09c88c6e3u); }

 private:
  static uint64_t Fold(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  }

  uint64_t state_ = 0xa0761d6478bd642fu;
};

}  // namespace

uint64_t DigestOf(std::span<const BufferUse> uses) {
  Mixer mixer;
  for (const BufferUse& use : uses) {
    mixer.Add(use.id);
    mixer.Add(use.bytes, use.alignment);
    mixer.Add(static_cast<uint64_t>(use.first_use), static_cast<uint64_t>(use.end.value_or(-1)));
    const uint64_t group = use.alias_group.has_value() ? uint64_t{*use.alias_group} + 1 : 0;
    mixer.Add(group << 1 | (use.output ? 1 : 0), use.gaps.size());
    for (const StepRange& gap : use.gaps) {
      mixer.Add(static_cast<uint64_t>(gap.begin), static_cast<uint64_t>(gap.end));
    }
  }
  mixer.Add(uses.size(), 0);
  return mixer.value();
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
