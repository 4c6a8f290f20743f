#include "server/translate_plans.h"

#include <absl/strings/str_cat.h>
#include <string>

#include "core/plan/make_plan.h"
#include "server/translate.h"

namespace tenure {
namespace {

constexpr int kMostBuffers = 100'000;
constexpr int kMostGaps = 100'000;

Status Refuse(const std::string& field, const std::string& what) {
  return Error(Reason::kInvalidRequest, absl::StrCat(field, " ", what), {{"field", field}});
}

Status CheckCount(const char* what, int count, int most) {
  if (count <= most) return absl::OkStatus();
  return Error(Reason::kLimit,
               absl::StrCat("a plan is for at most ", most, " ", what, ", not ", count),
               {{"limit", absl::StrCat(most)}});
}

// The buffer that an entry of a sparse list is about.
StatusOr<PlanBuffer*> At(PlanInput& input, const std::string& field, uint32_t index) {
  if (index < input.size()) return &input[index];
  return Refuse(field, absl::StrCat("names a buffer that there is not: ", index));
}

}  // namespace

StatusOr<PlanInput> FromProto(const v1::PlanBuffersRequest& request) {
  TENURE_RETURN_IF_ERROR(CheckCount("buffers", request.ids_size(), kMostBuffers));
  TENURE_RETURN_IF_ERROR(CheckCount("gaps", request.gaps_size(), kMostGaps));
  const auto check_column = [&](const std::string& field, int size) -> Status {
    if (size == request.ids_size()) return absl::OkStatus();
    return Refuse(field,
                  absl::StrCat("are not as many as ids: ", size, " and ", request.ids_size()));
  };
  TENURE_RETURN_IF_ERROR(check_column("sizes", request.sizes_size()));
  if (!request.alignments().empty()) {
    TENURE_RETURN_IF_ERROR(check_column("alignments", request.alignments_size()));
  }
  TENURE_RETURN_IF_ERROR(check_column("first_uses", request.first_uses_size()));
  TENURE_RETURN_IF_ERROR(check_column("ends", request.ends_size()));
  PlanInput input(static_cast<size_t>(request.ids_size()));
  for (int i = 0; i < request.ids_size(); ++i) {
    PlanBuffer& buffer = input[static_cast<size_t>(i)];
    buffer.id = request.ids(i);
    buffer.size = Bytes(request.sizes(i));
    if (!request.alignments().empty()) buffer.alignment = Bytes(request.alignments(i));
    buffer.first_use = request.first_uses(i);
    if (request.ends(i) == kNeverEnds) {
      buffer.end = std::nullopt;
    } else {
      buffer.end = request.ends(i);
    }
  }
  for (const v1::BufferGap& gap : request.gaps()) {
    TENURE_ASSIGN_OR_RETURN(PlanBuffer* const buffer, At(input, "gaps", gap.buffer()));
    buffer->gaps.push_back({.begin = gap.begin(), .end = gap.end()});
  }
  for (const uint32_t output : request.outputs()) {
    TENURE_ASSIGN_OR_RETURN(PlanBuffer* const buffer, At(input, "outputs", output));
    buffer->output = true;
  }
  for (const v1::FixedBuffer& fixed : request.fixed()) {
    TENURE_ASSIGN_OR_RETURN(PlanBuffer* const buffer, At(input, "fixed", fixed.buffer()));
    if (buffer->fixed_offset.has_value())
      return Refuse("fixed", "names a buffer twice: " + buffer->id);
    buffer->fixed_offset = Bytes(fixed.offset());
  }
  for (const v1::AliasedBuffer& alias : request.aliases()) {
    TENURE_ASSIGN_OR_RETURN(PlanBuffer* const buffer, At(input, "aliases", alias.buffer()));
    if (buffer->alias_group.has_value())
      return Refuse("aliases", "names a buffer twice: " + buffer->id);
    buffer->alias_group = alias.group();
  }
  return input;
}

StatusOr<PlanWish> PlanWishFromProto(const v1::PlanBuffersRequest& request) {
  PlanWish wish;
  if (request.has_budget()) {
    TENURE_ASSIGN_OR_RETURN(wish.budget, BudgetFromProto(request.budget()));
  }
  if (request.capacity() != 0) wish.capacity = Bytes(request.capacity());
  return wish;
}

v1::PlanBuffersResponse ToProto(const PlanAnswer& answer) {
  v1::PlanBuffersResponse proto;
  proto.set_plan_id(answer.key.ToHex());
  proto.mutable_offsets()->Reserve(static_cast<int>(answer.plan->offsets.size()));
  for (const Bytes offset : answer.plan->offsets) proto.add_offsets(offset.count());
  proto.set_height(answer.plan->height.count());
  proto.set_lower_bound(answer.plan->lower_bound.count());
  proto.set_proven(answer.plan->proven);
  *proto.mutable_seconds() = ToProto(answer.plan->seconds);
  proto.set_cached(answer.cached);
  proto.set_planner_version(kPlannerVersion);
  return proto;
}

}  // namespace tenure
