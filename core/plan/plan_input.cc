#include "core/plan/plan_input.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <bit>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace tenure {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 62;
constexpr uint64_t kMostAlignment = uint64_t{1} << 32;

Status Fault(const PlanBuffer& buffer, const std::string& fault, const std::string& explanation,
             const std::string& other = {}) {
  ErrorValues values = {{"buffer", buffer.id}, {"fault", fault}};
  std::string of = absl::StrCat("'", buffer.id, "'");
  if (!other.empty()) {
    values.emplace_back("other", other);
    absl::StrAppend(&of, " and '", other, "'");
  }
  return Error(Reason::kInvalidPlanInput, absl::StrCat(explanation, ": ", of), values);
}

Status CheckLifespan(const PlanBuffer& buffer) {
  if (buffer.first_use < 0 || buffer.end.value_or(0) < 0) {
    return Fault(buffer, "negative_step", "a step before 0");
  }
  if (buffer.first_use > kLastStep || buffer.end.value_or(0) > kLastStep) {
    return Fault(buffer, "step_overflow", "a step beyond 2^46");
  }
  const Step end = buffer.end.value_or(kNeverEnds);
  if (end < buffer.first_use) {
    return Fault(buffer, "inverted_lifespan", "a lifespan that ends before it begins");
  }
  if (end == buffer.first_use) {
    return Fault(buffer, "empty_lifespan", "a lifespan without a step");
  }
  Step used = buffer.first_use;  // there and after the last gap, but not known to be so before
  for (const Lifespan& gap : buffer.gaps) {
    if (gap.begin <= used || gap.end <= gap.begin || gap.end >= end) {
      return Fault(buffer, "bad_gap", "a gap that is empty, out of order or not inside");
    }
    used = gap.end;
  }
  return absl::OkStatus();
}

Status CheckPlace(const PlanBuffer& buffer) {
  const uint64_t alignment = buffer.alignment.count();
  if (!std::has_single_bit(alignment) || alignment > kMostAlignment) {
    return Fault(buffer, "bad_alignment", "an alignment that is no power of two up to 2^32");
  }
  if (!buffer.fixed_offset.has_value()) return absl::OkStatus();
  if (!(*buffer.fixed_offset % buffer.alignment).zero()) {
    return Fault(buffer, "misaligned_offset", "a fixed offset that is not aligned");
  }
  if (buffer.fixed_offset->count() > kMostBytes - buffer.size.count()) {
    return Fault(buffer, "offset_overflow", "a fixed offset beyond 2^62");
  }
  return absl::OkStatus();
}

Status CheckBuffers(const PlanInput& input) {
  std::unordered_set<std::string_view> ids;
  ids.reserve(input.size());
  uint64_t left = kMostBytes;
  for (const PlanBuffer& buffer : input) {
    if (buffer.id.empty()) return Fault(buffer, "empty_id", "a buffer without a name");
    if (!ids.insert(buffer.id).second) {
      return Fault(buffer, "duplicate_id", "two buffers of one name");
    }
    if (buffer.size.zero()) return Fault(buffer, "empty_size", "a buffer without a byte");
    if (buffer.size.count() > kMostBytes) {
      return Fault(buffer, "size_overflow", "sizes beyond 2^62 in all");
    }
    TENURE_RETURN_IF_ERROR(CheckPlace(buffer));
    TENURE_RETURN_IF_ERROR(CheckLifespan(buffer));
    const uint64_t most = AlignUp(buffer.size, buffer.alignment).count();
    if (most > left) return Fault(buffer, "size_overflow", "sizes beyond 2^62 in all");
    left -= most;
  }
  return absl::OkStatus();
}

// When outputs end.
Step EndOfAll(const PlanInput& input) {
  Step end = 0;
  for (const PlanBuffer& buffer : input) {
    end = std::max({end, buffer.end.value_or(0), buffer.first_use + 1});
  }
  return end;
}

Lifespan Whole(const PlanBuffer& buffer, Step end_of_all) {
  const Step end = buffer.end.value_or(kNeverEnds);
  return {buffer.first_use, buffer.output ? std::max(end, end_of_all) : end};
}

// The gaps of its members during which no other member is in use, in order, joined.
std::vector<Lifespan> CommonGaps(const PlanInput& input, const std::vector<uint32_t>& members,
                                 Step end_of_all) {
  std::vector<Lifespan> gaps;
  for (const uint32_t member : members) {
    for (const Lifespan& gap : input[member].gaps) {
      const bool shared = std::ranges::any_of(members, [&](uint32_t other) {
        return other != member && Overlap(Whole(input[other], end_of_all), gap);
      });
      if (!shared) gaps.push_back(gap);
    }
  }
  std::ranges::sort(gaps);
  return gaps;
}

StatusOr<Storage> JoinStorage(const PlanInput& input, const std::vector<uint32_t>& members,
                              Step end_of_all) {
  Storage storage{.buffer = members.front()};
  Lifespan whole = Whole(input[members.front()], end_of_all);
  for (const uint32_t member : members) {
    const PlanBuffer& buffer = input[member];
    storage.size = std::max(storage.size, buffer.size);
    storage.alignment = std::max(storage.alignment, buffer.alignment);
    const Lifespan span = Whole(buffer, end_of_all);
    whole = {std::min(whole.begin, span.begin), std::max(whole.end, span.end)};
    if (!buffer.fixed_offset.has_value()) continue;
    if (storage.fixed_offset.value_or(*buffer.fixed_offset) != *buffer.fixed_offset) {
      return Fault(buffer, "fixed_apart", "views of one storage that are fixed apart");
    }
    storage.fixed_offset = buffer.fixed_offset;
  }
  if (storage.fixed_offset.has_value() && !(*storage.fixed_offset % storage.alignment).zero()) {
    return Fault(input[storage.buffer], "misaligned_offset", "a fixed offset that is not aligned");
  }
  Step begin = whole.begin;
  for (const Lifespan& gap : CommonGaps(input, members, end_of_all)) {
    storage.alive.push_back({begin, gap.begin});
    begin = gap.end;
  }
  storage.alive.push_back({begin, whole.end});
  return storage;
}

Status CheckFixed(const PlanInput& input, const std::vector<Storage>& storages) {
  std::vector<const Storage*> fixed;
  for (const Storage& storage : storages) {
    if (storage.fixed_offset.has_value()) fixed.push_back(&storage);
  }
  std::ranges::sort(fixed, {}, [](const Storage* storage) { return *storage->fixed_offset; });
  for (size_t i = 0; i < fixed.size(); ++i) {
    const Bytes end = *fixed[i]->fixed_offset + fixed[i]->size;
    for (size_t j = i + 1; j < fixed.size() && *fixed[j]->fixed_offset < end; ++j) {
      if (AliveTogether(*fixed[i], *fixed[j])) {
        return Fault(input[fixed[j]->buffer], "fixed_overlap",
                     "buffers that are alive at once and fixed on the same bytes",
                     input[fixed[i]->buffer].id);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool AliveTogether(const Storage& a, const Storage& b) {
  auto in_a = a.alive.begin();
  auto in_b = b.alive.begin();
  while (in_a != a.alive.end() && in_b != b.alive.end()) {
    if (Overlap(*in_a, *in_b)) return true;
    ++(in_a->end < in_b->end ? in_a : in_b);
  }
  return false;
}

StatusOr<PlanProblem> MakePlanProblem(const PlanInput& input) {
  TENURE_RETURN_IF_ERROR(CheckBuffers(input));
  const Step end_of_all = EndOfAll(input);
  std::vector<std::vector<uint32_t>> members;
  members.reserve(input.size());
  std::unordered_map<uint32_t, uint32_t> storage_of_group;
  PlanProblem problem;
  problem.storage_of.reserve(input.size());
  for (uint32_t i = 0; i < input.size(); ++i) {
    uint32_t storage = static_cast<uint32_t>(members.size());
    if (input[i].alias_group.has_value()) {
      storage = storage_of_group.try_emplace(*input[i].alias_group, storage).first->second;
    }
    if (storage == members.size()) members.emplace_back();
    members[storage].push_back(i);
    problem.storage_of.push_back(storage);
  }
  problem.storages.reserve(members.size());
  for (const std::vector<uint32_t>& buffers : members) {
    TENURE_ASSIGN_OR_RETURN(Storage storage, JoinStorage(input, buffers, end_of_all));
    problem.storages.push_back(std::move(storage));
  }
  TENURE_RETURN_IF_ERROR(CheckFixed(input, problem.storages));
  return problem;
}

}  // namespace tenure
