#include "tenure/planned_slot.h"

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tenure/buffer_plan.h"
#include "tenure/errors.h"
#include "tests/client/plain_segments.h"

namespace tenure::client {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// A and C do not live at once.
const std::vector<BufferUse> kThree = {{.id = "A", .bytes = 4 * kMiB, .first_use = 0, .end = 3},
                                       {.id = "B", .bytes = 6 * kMiB, .first_use = 1, .end = 4},
                                       {.id = "C", .bytes = 4 * kMiB, .first_use = 3, .end = 5}};

class PlannedSlotTest : public testing::Test, protected PlainPool {
 protected:
  ~PlannedSlotTest() override {
    local->Validate();
    EXPECT_EQ(segments->bad(), 0);
  }

  BufferPlan PlanOf(const std::vector<BufferUse>& uses) const {
    absl::StatusOr<BufferPlan> plan = pool.Plan(uses);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return *std::move(plan);
  }
  // "PLAN_OVERLAP C A", with the values `buffer` and `other` as far as there are any.
  static std::string Refusal(const absl::Status& status) {
    std::string text = ErrorReason(status);
    auto values = ErrorValues(status);
    for (const char* const name : {"buffer", "other"}) {
      if (values.contains(name)) text += " " + values[name];
    }
    return text;
  }
  static std::string Refusal(const absl::StatusOr<SlotBuffer>& buffer) {
    return Refusal(buffer.status());
  }
};

TEST_F(PlannedSlotTest, BuffersThatAreNotInUseAtOnceLieOnTheSameBytes) {
  const BufferPlan plan = PlanOf(kThree);
  EXPECT_EQ(plan.height(), 10 * kMiB);
  EXPECT_EQ(plan.lower_bound(), 10 * kMiB);
  EXPECT_TRUE(plan.proven());
  PlannedSlot slot = *plan.OpenSlot();
  EXPECT_EQ(segments->buffers(), std::vector<uint64_t>{10 * kMiB});
  EXPECT_EQ(pool.used_bytes(), 10 * kMiB);
  EXPECT_EQ(pool.held_bytes(), 10 * kMiB);
  const SlotBuffer a = *slot.Acquire("A", 4 * kMiB, 256);
  const SlotBuffer b = *slot.Acquire("B", 6 * kMiB, 256);
  EXPECT_EQ(a.data, Base() + a.offset);
  EXPECT_EQ(b.offset - a.offset, plan.offsets()[1] - plan.offsets()[0]);
  EXPECT_TRUE(slot.Release("A").ok());
  const SlotBuffer c = *slot.Acquire(2, 4 * kMiB);
  EXPECT_EQ(c.data, a.data);
  EXPECT_TRUE(c.planned);
}

TEST_F(PlannedSlotTest, APlanIsMadeOnceForTheSameUses) {
  const BufferPlan plan = PlanOf(kThree);
  PlanOf(kThree);
  EXPECT_EQ(*planner.calls, 1);
  std::vector<BufferUse> longer = kThree;
  longer[0].end = 5;
  EXPECT_EQ(PlanOf(longer).height(), 14 * kMiB);
  EXPECT_EQ(*planner.calls, 2);
  EXPECT_TRUE(plan.Check(kThree).ok());
  EXPECT_EQ(Refusal(plan.Check(longer)), "PLAN_OVERLAP C A");
  std::vector<BufferUse> other = {kThree[1]};
  other[0].bytes += 1;
  EXPECT_EQ(Refusal(plan.Check(other)), "PLAN_TOO_SMALL B");
  other[0] = kThree[1];
  other[0].alignment = 512;
  EXPECT_EQ(Refusal(plan.Check(other)), "PLAN_TOO_SMALL B");
  other[0].id = "D";
  EXPECT_EQ(Refusal(plan.Check(other)), "NOT_PLANNED D");
  other = kThree;
  other[0].alias_group = other[1].alias_group = 1;
  EXPECT_EQ(ErrorReason(plan.Check(other)), "PLAN_OVERLAP");
  EXPECT_TRUE(plan.Check({}).ok());
}

TEST_F(PlannedSlotTest, WhatMakesNoSenseIsNotPlanned) {
  std::vector<BufferUse> bad = kThree;
  bad[1].id = "A";
  const absl::Status twice = pool.Plan(bad).status();
  EXPECT_EQ(ErrorReason(twice), "INVALID_PLAN_INPUT");
  EXPECT_EQ(ErrorValues(twice)["fault"], "duplicate_id");
  EXPECT_EQ(*planner.calls, 0);
  bad = kThree;
  bad[0].alignment = 4 * kMiB;
  EXPECT_EQ(ErrorReason(pool.Plan(bad).status()), "INVALID_REQUEST");
}

TEST_F(PlannedSlotTest, ABufferThatDoesNotFitThePlanIsRefusedAndNothingIsHarmed) {
  PlannedSlot slot = *PlanOf(kThree).OpenSlot();
  EXPECT_EQ(Refusal(slot.Acquire("A", 4 * kMiB + 1)), "PLAN_TOO_SMALL A");
  EXPECT_EQ(Refusal(slot.Acquire("A", 1, 512)), "PLAN_TOO_SMALL A");
  EXPECT_EQ(Refusal(slot.Acquire("A", 0)), "INVALID_REQUEST");
  EXPECT_EQ(Refusal(slot.Acquire("A", 1, 3)), "INVALID_REQUEST");
  EXPECT_EQ(Refusal(slot.Acquire("D", 1)), "NOT_PLANNED D");
  EXPECT_EQ(Refusal(slot.Acquire(3, 1)), "NOT_PLANNED 3");
  EXPECT_EQ(Refusal(slot.Release("A")), "NOT_ACQUIRED A");
  EXPECT_EQ(Refusal(slot.AddView("A")), "NOT_ACQUIRED A");
  ASSERT_TRUE(slot.Acquire("A", 1).ok());
  EXPECT_EQ(Refusal(slot.Acquire("A", 1)), "ACQUIRED A");
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A");
  ASSERT_TRUE(slot.Release("A").ok());
  EXPECT_EQ(Refusal(slot.Release("A")), "NOT_ACQUIRED A");
  EXPECT_TRUE(slot.Acquire("C", 4 * kMiB).ok());
}

TEST_F(PlannedSlotTest, TheEndOfTheLastReaderAndNotTheReleaseFreesTheBytes) {
  Timeline compute;
  Timeline copy;
  PlannedSlot slot = *PlanOf(kThree).OpenSlot();
  ASSERT_TRUE(slot.Acquire("A", 1).ok());
  ASSERT_TRUE(slot.Release("A", {Fence::At(compute, 1), Fence::At(copy, 1)}).ok());
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A");
  EXPECT_EQ(Refusal(slot.Acquire("A", 1)), "PLAN_OVERLAP A A");
  compute.Advance(1);
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A");
  copy.Advance(1);
  EXPECT_TRUE(slot.Acquire("C", 1).ok());
}

TEST_F(PlannedSlotTest, AViewThatLivesLongerKeepsItsStorage) {
  std::vector<BufferUse> uses = kThree;
  uses.push_back({.id = "A'", .bytes = kMiB, .first_use = 1, .end = 3, .alias_group = 1});
  uses[0].alias_group = 1;
  Timeline reader;
  PlannedSlot slot = *PlanOf(uses).OpenSlot();
  const SlotBuffer a = *slot.Acquire("A", 4 * kMiB);
  EXPECT_EQ(slot.Acquire("A'", kMiB)->data, a.data);
  ASSERT_TRUE(slot.Release("A", Fence::At(reader, 1)).ok());
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A'");
  ASSERT_TRUE(slot.Release("A'").ok());
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A'");
  // What is read can be viewed.
  ASSERT_TRUE(slot.Acquire("A", 1).ok());
  reader.Advance(1);
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A");
  ASSERT_TRUE(slot.Release("A").ok());
  EXPECT_TRUE(slot.Acquire("C", 1).ok());
}

TEST_F(PlannedSlotTest, AViewThatThePlanDoesNotKnowKeepsItsStorage) {
  PlannedSlot slot = *PlanOf(kThree).OpenSlot();
  ASSERT_TRUE(slot.Acquire("A", 1).ok());
  ASSERT_TRUE(slot.AddView("A").ok());
  ASSERT_TRUE(slot.Release("A").ok());
  EXPECT_EQ(Refusal(slot.Acquire("C", 1)), "PLAN_OVERLAP C A");
  ASSERT_TRUE(slot.Release("A").ok());
  EXPECT_TRUE(slot.Acquire("C", 1).ok());
}

TEST_F(PlannedSlotTest, WhatDoesNotFitFallsBackToThePoolIfAsked) {
  Timeline reader;
  std::optional<PlannedSlot> slot = *PlanOf(kThree).OpenSlot({.fall_back = true});
  ASSERT_TRUE(slot->Acquire("A", 1).ok());
  const SlotBuffer c = *slot->Acquire("C", 4 * kMiB);
  EXPECT_FALSE(c.planned);
  EXPECT_EQ(pool.used_bytes(), 14 * kMiB);
  const SlotBuffer b = *slot->Acquire("B", 7 * kMiB, 1024);
  EXPECT_FALSE(b.planned);
  EXPECT_EQ(b.offset % 1024, 0u);
  ASSERT_TRUE(slot->Release("C", Fence::At(reader, 1)).ok());
  ASSERT_TRUE(slot->Release("A").ok());
  EXPECT_TRUE(slot->Acquire("C", 1)->planned);
  EXPECT_EQ(pool.used_bytes(), 21 * kMiB);
  reader.Advance(1);
  slot.reset();
  pool.Trim();
  EXPECT_EQ(pool.used_bytes(), 0u);
  EXPECT_EQ(pool.held_bytes(), 0u);
}

TEST_F(PlannedSlotTest, AViewOfWhatFellBackLiesWithIt) {
  std::vector<BufferUse> uses = kThree;
  uses.push_back({.id = "A'", .bytes = kMiB, .first_use = 1, .end = 3, .alias_group = 1});
  uses[0].alias_group = 1;
  PlannedSlot slot = *PlanOf(uses).OpenSlot({.fall_back = true});
  const SlotBuffer view = *slot.Acquire("A'", 2 * kMiB);
  EXPECT_FALSE(view.planned);
  EXPECT_EQ(slot.Acquire("A", 4 * kMiB)->data, view.data);
  ASSERT_TRUE(slot.Release("A'").ok());
  EXPECT_EQ(Refusal(slot.Acquire("A'", 5 * kMiB)), "PLAN_TOO_SMALL A'");
}

TEST_F(PlannedSlotTest, AClosedSlotServesTheNextRequestOnceItsReadersHaveEnded) {
  Timeline reader;
  const BufferPlan plan = PlanOf(kThree);
  PlannedSlot slot = *plan.OpenSlot();
  const SlotBuffer a = *slot.Acquire("A", 1);
  ASSERT_TRUE(slot.Release("A", Fence::At(reader, 1)).ok());
  PlannedSlot moved = std::move(slot);
  EXPECT_FALSE(slot.valid());
  EXPECT_TRUE(moved.valid());
  ASSERT_TRUE(moved.Acquire("B", 1).ok());
  ASSERT_TRUE(moved.Close(Fence::At(reader, 2)).ok());
  EXPECT_EQ(Refusal(moved.Close()), "SLOT_CLOSED");
  EXPECT_EQ(Refusal(moved.Acquire("A", 1)), "SLOT_CLOSED");
  EXPECT_EQ(Refusal(moved.Release("B")), "SLOT_CLOSED");
  std::optional<PlannedSlot> second = *plan.OpenSlot();
  EXPECT_EQ(segments->buffer_calls(), 2);
  EXPECT_NE(second->Acquire("A", 1)->data, a.data);
  reader.Advance(2);
  PlannedSlot third = *plan.OpenSlot();
  EXPECT_EQ(third.Acquire("A", 1)->data, a.data);
  EXPECT_EQ(segments->buffer_calls(), 2);
  second.reset();
  EXPECT_EQ(pool.held_bytes(), 20 * kMiB);
  EXPECT_EQ(pool.Trim(), 10 * kMiB);
  EXPECT_EQ(segments->buffers(), std::vector<uint64_t>{10 * kMiB});
}

TEST_F(PlannedSlotTest, ARefusedReleaseKeepsTheSlotsMemory) {
  const BufferPlan plan = PlanOf(kThree);
  const auto gone = [] { return Fence::At(Timeline(), 1); };
  std::optional<PlannedSlot> slot = *plan.OpenSlot();
  ASSERT_TRUE(slot->Acquire("A", 1).ok());
  EXPECT_EQ(Refusal(slot->Release("A", gone())), "INVALID_REQUEST");
  EXPECT_EQ(Refusal(slot->Acquire("C", 1)), "PLAN_OVERLAP C A");
  ASSERT_TRUE(slot->Release("A").ok());
  slot.reset();
  pool.Trim();
  EXPECT_EQ(pool.used_bytes(), 0u);
  slot = *plan.OpenSlot();
  EXPECT_EQ(Refusal(slot->Close(gone())), "INVALID_REQUEST");
  slot.reset();
  EXPECT_EQ(pool.used_bytes(), 10 * kMiB);
}

TEST_F(PlannedSlotTest, ARefusedSlotTakesWhatIsIdleAndThenWaitsForReaders) {
  Timeline reader;
  segments->set_most_buffer_bytes(10 * kMiB);
  const BufferPlan other = PlanOf({{.id = "x", .bytes = kMiB, .first_use = 0, .end = 1}});
  ASSERT_TRUE(other.OpenSlot()->Close().ok());
  const BufferPlan plan = PlanOf(kThree);
  PlannedSlot slot = *plan.OpenSlot();
  EXPECT_TRUE(segments->buffers() == std::vector<uint64_t>{10 * kMiB});
  EXPECT_EQ(plan.OpenSlot().status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(slot.Close(Fence::At(reader, 1)).ok());
  std::jthread later([&] { reader.Advance(1); });
  EXPECT_TRUE(plan.OpenSlot().ok());
}

TEST_F(PlannedSlotTest, ALostPoolEndsItsSlots) {
  const BufferPlan plan = PlanOf(kThree);
  PlannedSlot slot = *plan.OpenSlot();
  local->Invalidate("LEASE_EXPIRED");
  EXPECT_FALSE(slot.valid());
  EXPECT_EQ(Refusal(slot.Acquire("A", 1)), "LEASE_EXPIRED");
  EXPECT_EQ(ErrorReason(plan.OpenSlot().status()), "LEASE_EXPIRED");
  EXPECT_EQ(ErrorReason(pool.Plan(kThree).status()), "LEASE_EXPIRED");
  EXPECT_TRUE(slot.Close().ok());
}

TEST_F(PlannedSlotTest, ASlotOutlivesItsPoolAndGivesItsMemoryBackAtItsEnd) {
  const BufferPlan plan = PlanOf(kThree);
  std::optional<PlannedSlot> slot = *plan.OpenSlot();
  local->Close();
  EXPECT_EQ(ErrorReason(plan.OpenSlot().status()), "RELEASED");
  EXPECT_TRUE(slot->Acquire("A", 1).ok());
  EXPECT_EQ(segments->buffers().size(), 1u);
  slot.reset();
  EXPECT_TRUE(segments->buffers().empty());
  // This test and its pool: a plan keeps none.
  EXPECT_EQ(local.use_count(), 2);
}

TEST_F(PlannedSlotTest, ARecordedRequestIsPlannedAndReplayed) {
  BufferRecording recording = *pool.Record();
  PoolBuffer a = Take(4 * kMiB);  // 0
  PoolBuffer b = Take(6 * kMiB);  // 1
  ASSERT_TRUE(a.Release().ok());  // 2
  PoolBuffer c = Take(4 * kMiB);  // 3
  ASSERT_TRUE(b.Release().ok());  // 4
  ASSERT_TRUE(c.Release().ok());  // 5
  const std::vector<BufferUse> uses = UsesOf(recording.Finish());
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[2], (BufferUse{.id = "2", .bytes = 4 * kMiB, .first_use = 3, .end = 5}));
  const BufferPlan plan = PlanOf(uses);
  EXPECT_EQ(plan.height(), 10 * kMiB);
  PlannedSlot slot = *plan.OpenSlot();
  EXPECT_TRUE(slot.Acquire(0, 4 * kMiB).ok());
  EXPECT_TRUE(slot.Acquire(1, 6 * kMiB).ok());
  EXPECT_TRUE(slot.Release("0").ok());
  EXPECT_TRUE(slot.Acquire("2", 4 * kMiB).ok());
}

}  // namespace
}  // namespace tenure::client
