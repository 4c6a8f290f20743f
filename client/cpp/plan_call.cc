#include "client/cpp/plan_call.h"

#include <algorithm>
#include <tenure/v1/plan.pb.h>

#include "client/cpp/duration.h"
#include "client/cpp/error.h"

namespace tenure::client {
namespace {

v1::PlanBuffersRequest ToMessage(const PlanInput& input) {
  v1::PlanBuffersRequest request;
  const bool aligned = std::ranges::any_of(
      input, [](const PlanBuffer& buffer) { return buffer.alignment != Bytes(1); });
  for (uint32_t i = 0; i < input.size(); ++i) {
    const PlanBuffer& buffer = input[i];
    request.add_ids(buffer.id);
    request.add_sizes(buffer.size.count());
    if (aligned) request.add_alignments(buffer.alignment.count());
    request.add_first_uses(buffer.first_use);
    request.add_ends(buffer.end.value_or(kNeverEnds));
    for (const Lifespan& span : buffer.gaps) {
      v1::BufferGap& gap = *request.add_gaps();
      gap.set_buffer(i);
      gap.set_begin(span.begin);
      gap.set_end(span.end);
    }
    if (buffer.output) request.add_outputs(i);
    if (buffer.fixed_offset.has_value()) {
      v1::FixedBuffer& fixed = *request.add_fixed();
      fixed.set_buffer(i);
      fixed.set_offset(buffer.fixed_offset->count());
    }
    if (buffer.alias_group.has_value()) {
      v1::AliasedBuffer& alias = *request.add_aliases();
      alias.set_buffer(i);
      alias.set_group(*buffer.alias_group);
    }
  }
  return request;
}

PlanReply ToValue(const v1::PlanBuffersResponse& response) {
  PlanReply reply{.plan_id = response.plan_id(),
                  .height = Bytes(response.height()),
                  .lower_bound = Bytes(response.lower_bound()),
                  .proven = response.proven(),
                  .seconds = FromProto(response.seconds()),
                  .cached = response.cached(),
                  .planner_version = response.planner_version()};
  reply.offsets.reserve(static_cast<size_t>(response.offsets_size()));
  for (const uint64_t offset : response.offsets()) reply.offsets.emplace_back(offset);
  return reply;
}

}  // namespace

absl::StatusOr<PlanReply> PlanBuffers(Connection& connection, const PlanInput& input,
                                      const PlanCallOptions& options, Deadline deadline,
                                      const std::stop_token& cancel) {
  v1::PlanBuffersRequest request = ToMessage(input);
  if (options.budget.has_value()) ToProto(*options.budget, request.mutable_budget());
  if (options.capacity.has_value()) {
    if (options.capacity->zero()) {
      return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                       "a capacity of no bytes");
    }
    request.set_capacity(options.capacity->count());
  }
  v1::PlanBuffersResponse response;
  TENURE_CLIENT_RETURN_IF_ERROR(connection.Call(connection.rpc().plans(),
                                                &v1::PlanService::Stub::PlanBuffers, request,
                                                &response, deadline, cancel));
  if (static_cast<size_t>(response.offsets_size()) != input.size()) {
    return ProtocolError("a plan of other buffers than those that were asked about");
  }
  return ToValue(response);
}

}  // namespace tenure::client
