#pragma once

// What a planner is asked: buffers, how large they are and when they are in use.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/base/units.h"

namespace tenure {

// A point in the order of a request's work, from 0 on. Only the order of steps matters.
using Step = int64_t;

// The half-open interval of steps [begin, end): from the first use to the end of the last reader.
struct Lifespan {
  Step begin = 0;
  Step end = 0;
  friend auto operator<=>(const Lifespan&, const Lifespan&) = default;
};

// True if some step belongs to both.
constexpr bool Overlap(const Lifespan& a, const Lifespan& b) {
  return a.begin < b.end && b.begin < a.end;
}

// One buffer of a request.
struct PlanBuffer {
  // Unique in its input.
  std::string id{};
  Bytes size{};
  // Of its offset: a power of two.
  Bytes alignment{1};
  // In use during [first_use, end). nullopt: its last use is not known, so that it never ends.
  Step first_use = 0;
  std::optional<Step> end = 0;
  // Steps within that in which it holds nothing that is read later. In order, apart, not empty.
  std::vector<Lifespan> gaps{};
  // Read after the request: it lives to the end of the last buffer of the input, at least.
  bool output = false;
  // Where it has to lie.
  std::optional<Bytes> fixed_offset{};
  // Buffers of one group are views of one storage, see Storage.
  std::optional<uint32_t> alias_group{};
  friend bool operator==(const PlanBuffer&, const PlanBuffer&) = default;
};

using PlanInput = std::vector<PlanBuffer>;

// Memory that is placed as one: a buffer, or all the buffers of an alias group. Its size and its
// alignment are the largest of theirs. It lives from the first use to the last end of any of them,
// also between them, for a view reads what was written before it began; except in a gap of one of
// them during which no other one is in use.
struct Storage {
  Bytes size{};
  Bytes alignment{1};
  std::optional<Bytes> fixed_offset{};
  // In order, apart; neither it nor any of it is empty.
  std::vector<Lifespan> alive{};
  // The first of its buffers, an index into the input: gives it a name.
  uint32_t buffer = 0;
};

// True if both are alive at some step.
bool AliveTogether(const Storage& a, const Storage& b);

// What is to be placed: an input that was found to make sense.
struct PlanProblem {
  std::vector<Storage> storages;
  // storage_of[i] is where buffer i of the input lies.
  std::vector<uint32_t> storage_of;
};

// The latest step that may be named; what never ends does so later. A day in nanoseconds is in
// reach, and sums of a hundred thousand steps do not overflow.
inline constexpr Step kLastStep = (Step{1} << 46) - 1;
inline constexpr Step kNeverEnds = kLastStep + 1;

// INVALID_PLAN_INPUT with the values `buffer` (its id) and `fault`, one of
//   empty_id, duplicate_id
//   empty_size, size_overflow      no byte; the sizes, each rounded up to its alignment, beyond
//   2^62 bad_alignment                  no power of two, or beyond 2^32 negative_step,
//   step_overflow   before 0; beyond kLastStep inverted_lifespan, empty_lifespan bad_gap outside of
//   the lifespan, at one of its ends, empty, out of order misaligned_offset, offset_overflow
//   fixed_apart                    two buffers of one storage fixed at different offsets
//   fixed_overlap                  fixed on top of another one that is alive at the same time;
//                                  `other` names that
StatusOr<PlanProblem> MakePlanProblem(const PlanInput& input);

}  // namespace tenure
