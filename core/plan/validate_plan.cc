#include "core/plan/validate_plan.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <map>
#include <string>

#include "core/base/check.h"

namespace tenure {
namespace {

// Bytes [low, high) that are taken during [begin, end), for `buffer`.
struct Block {
  Step begin;
  Step end;
  uint64_t low;
  uint64_t high;
  uint32_t buffer;
};

Status TooSmall(const std::string& explanation, const PlanBuffer& buffer) {
  return Error(Reason::kPlanTooSmall, absl::StrCat(explanation, ": '", buffer.id, "'"),
               {{"buffer", buffer.id}});
}

Status Overlapping(const std::string& explanation, const PlanBuffer& buffer,
                   const PlanBuffer& other, Step free_at = kNeverEnds) {
  ErrorValues values = {{"buffer", buffer.id}, {"other", other.id}};
  if (free_at != kNeverEnds) values.emplace_back("free_at", std::to_string(free_at));
  return Error(Reason::kPlanOverlap,
               absl::StrCat(explanation, ": '", buffer.id, "' and '", other.id, "'"), values);
}

Status CheckPlaces(const PlanInput& input, const std::vector<Bytes>& offsets, Bytes height) {
  for (size_t i = 0; i < input.size(); ++i) {
    const PlanBuffer& buffer = input[i];
    if (buffer.size > height || offsets[i] > height - buffer.size) {
      return TooSmall("a buffer that ends beyond the plan", buffer);
    }
    if (offsets[i].count() % buffer.alignment.count() != 0) {
      return TooSmall("a buffer that is not aligned in the plan", buffer);
    }
    if (buffer.fixed_offset.value_or(offsets[i]) != offsets[i]) {
      return Error(Reason::kPlanOverlap,
                   absl::StrCat("a buffer that is not where it has to lie: '", buffer.id, "'"),
                   {{"buffer", buffer.id}});
    }
  }
  return absl::OkStatus();
}

Step LastStep(const PlanBuffer& buffer, Step end_of_outputs) {
  if (!buffer.end.has_value()) return kNeverEnds;
  return buffer.output ? end_of_outputs : *buffer.end;
}

// Whether some view other than `except` is in use during `gap`.
bool UsedDuring(const PlanInput& input, const std::vector<uint32_t>& views, uint32_t except,
                const Lifespan& gap, Step end_of_outputs) {
  for (const uint32_t view : views) {
    if (view == except) continue;
    if (input[view].first_use < gap.end && LastStep(input[view], end_of_outputs) > gap.begin) {
      return true;
    }
  }
  return false;
}

// What views of one storage take: all of its bytes from the first use to the last, and nothing
// during a gap that is one for all of them.
Status AddViews(const PlanInput& input, const std::vector<Bytes>& offsets,
                const std::vector<uint32_t>& views, Step end_of_outputs,
                std::vector<Block>& blocks) {
  const uint64_t low = offsets[views.front()].count();
  Block whole{.begin = kNeverEnds, .end = 0, .low = low, .high = low, .buffer = views.front()};
  std::map<Step, Step> gaps;
  for (const uint32_t view : views) {
    if (offsets[view].count() != low) {
      return Overlapping("views of one storage that are apart in the plan", input[view],
                         input[views.front()]);
    }
    whole.begin = std::min(whole.begin, input[view].first_use);
    whole.end = std::max(whole.end, LastStep(input[view], end_of_outputs));
    whole.high = std::max(whole.high, low + input[view].size.count());
    for (const Lifespan& gap : input[view].gaps) {
      if (!UsedDuring(input, views, view, gap, end_of_outputs)) gaps.emplace(gap.begin, gap.end);
    }
  }
  for (const auto& [begin, end] : gaps) {
    blocks.push_back(whole);
    blocks.back().end = begin;
    whole.begin = end;
  }
  blocks.push_back(whole);
  return absl::OkStatus();
}

StatusOr<std::vector<Block>> BlocksOf(const PlanInput& input, const std::vector<Bytes>& offsets) {
  Step end_of_outputs = 0;
  for (const PlanBuffer& buffer : input) {
    end_of_outputs = std::max(end_of_outputs, buffer.end.value_or(buffer.first_use + 1));
  }
  std::vector<Block> blocks;
  blocks.reserve(input.size());
  std::map<uint32_t, std::vector<uint32_t>> views;
  for (uint32_t i = 0; i < input.size(); ++i) {
    if (input[i].alias_group.has_value()) {
      views[*input[i].alias_group].push_back(i);
      continue;
    }
    Block block{.begin = input[i].first_use,
                .end = 0,
                .low = offsets[i].count(),
                .high = offsets[i].count() + input[i].size.count(),
                .buffer = i};
    for (const Lifespan& gap : input[i].gaps) {
      block.end = gap.begin;
      blocks.push_back(block);
      block.begin = gap.end;
    }
    block.end = LastStep(input[i], end_of_outputs);
    blocks.push_back(block);
  }
  for (const auto& [group, members] : views) {
    TENURE_RETURN_IF_ERROR(AddViews(input, offsets, members, end_of_outputs, blocks));
  }
  return blocks;
}

// Goes through the steps with those blocks that are alive, in the order of their bytes.
Status CheckApart(const PlanInput& input, std::vector<Block> blocks) {
  std::ranges::sort(blocks, {}, &Block::begin);
  std::vector<uint32_t> by_end(blocks.size());
  for (uint32_t i = 0; i < blocks.size(); ++i) by_end[i] = i;
  std::ranges::sort(by_end, {}, [&](uint32_t i) { return blocks[i].end; });
  std::vector<uint32_t> alive;
  const auto low = [&](uint32_t i) { return blocks[i].low; };
  auto ending = by_end.begin();
  for (uint32_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    for (; blocks[*ending].end <= block.begin; ++ending) {
      alive.erase(std::ranges::lower_bound(alive, blocks[*ending].low, {}, low));
    }
    const auto above = std::ranges::lower_bound(alive, block.low, {}, low);
    const bool hits_above = above != alive.end() && blocks[*above].low < block.high;
    const bool hits_below = above != alive.begin() && blocks[*(above - 1)].high > block.low;
    if (hits_above || hits_below) {
      const Block& other = blocks[hits_above ? *above : *(above - 1)];
      return Overlapping("buffers that are alive at once share bytes in the plan",
                         input[block.buffer], input[other.buffer], other.end);
    }
    alive.insert(above, i);
  }
  return absl::OkStatus();
}

}  // namespace

Status ValidatePlan(const PlanInput& input, const std::vector<Bytes>& offsets, Bytes height) {
  TENURE_CHECK(offsets.size() == input.size());
  TENURE_RETURN_IF_ERROR(CheckPlaces(input, offsets, height));
  TENURE_ASSIGN_OR_RETURN(std::vector<Block> blocks, BlocksOf(input, offsets));
  return CheckApart(input, std::move(blocks));
}

}  // namespace tenure
