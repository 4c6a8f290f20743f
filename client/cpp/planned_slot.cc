#include "tenure/planned_slot.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

#include "client/cpp/error.h"
#include "client/cpp/plan_state.h"
#include "client/cpp/slot_state.h"

namespace tenure::client {
namespace {

absl::Status SlotClosed() {
  return MakeError(absl::StatusCode::kFailedPrecondition, kSlotClosed,
                   "this slot was closed or moved from");
}

// The place of a buffer in the plan.
absl::StatusOr<uint32_t> IndexOf(const SlotState& slot, const BufferName& name) {
  if (name.id().data() == nullptr) {
    if (name.index() < slot.acquired.size()) return static_cast<uint32_t>(name.index());
  } else if (const std::optional<uint32_t> index = slot.plan->Find(name.id())) {
    return *index;
  }
  const std::string id =
      name.id().data() == nullptr ? std::to_string(name.index()) : std::string(name.id());
  return MakeError(absl::StatusCode::kNotFound, kNotPlanned,
                   "the plan has no such buffer: '" + id + "'", {{"buffer", id}});
}

absl::Status AboutBuffer(const SlotState& slot, std::string_view reason, std::string_view what,
                         uint32_t index) {
  const std::string& id = slot.plan->uses()[index].id;
  return MakeError(absl::StatusCode::kFailedPrecondition, reason,
                   std::string(what) + ": '" + id + "'", {{"buffer", id}});
}

absl::Status Overlaps(const SlotState& slot, uint32_t index, uint32_t storage) {
  const SlotState::StorageUse& use = slot.storages[storage];
  uint32_t other = slot.plan->storages()[storage].buffer;
  for (uint32_t i = 0; i < slot.acquired.size() && use.acquired > 0; ++i) {
    if (slot.plan->storage_of(i) == storage && slot.acquired[i] > 0) {
      other = i;
      break;
    }
  }
  if (use.acquired == 0) other = use.released;
  const std::string& id = slot.plan->uses()[index].id;
  const std::string& other_id = slot.plan->uses()[other].id;
  return MakeError(absl::StatusCode::kFailedPrecondition, kPlanOverlap,
                   std::string("the bytes of a buffer are still ") +
                       (use.acquired > 0 ? "in use" : "read") + ": '" + id + "' and '" + other_id +
                       "'",
                   {{"buffer", id}, {"other", other_id}});
}

// Takes the bytes of a storage for `index`, unless others or the readers of its last use have them.
absl::Status TakeBytes(SlotState& slot, uint32_t index) {
  const uint32_t storage = slot.plan->storage_of(index);
  const std::vector<PlanState::Place>& places = slot.plan->storages();
  const uint64_t begin = places[storage].offset;
  const uint64_t end = begin + places[storage].bytes;
  auto next = std::lower_bound(
      slot.taken.begin(), slot.taken.end(), begin,
      [&](uint32_t each, uint64_t at) { return places[each].offset + places[each].bytes <= at; });
  while (next != slot.taken.end() && places[*next].offset < end) {
    SlotState::StorageUse& use = slot.storages[*next];
    const bool view = *next == storage && (use.acquired > 0 || use.released != index);
    if (view) return absl::OkStatus();
    if (use.acquired > 0 || !use.readers.AllReached(*slot.pool)) {
      return Overlaps(slot, index, *next);
    }
    next = slot.taken.erase(next);
  }
  slot.taken.insert(next, storage);
  return absl::OkStatus();
}

void LetGoOfBytes(SlotState& slot, uint32_t storage) {
  const auto found = std::find(slot.taken.begin(), slot.taken.end(), storage);
  if (found != slot.taken.end()) slot.taken.erase(found);
}

// Memory of the pool, as large as the storage at least, for other views of it.
absl::Status FallBack(SlotState& slot, uint32_t storage, uint64_t bytes, uint64_t alignment,
                      const CallOptions& options) {
  const PlanState::Place& place = slot.plan->storages()[storage];
  SlotState::FallBack fallen{
      .block = {},
      .alignment = std::max({alignment, place.alignment, LocalPool::kGranule}),
      .readers = {}};
  TENURE_CLIENT_RETURN_IF_ERROR(slot.pool->Acquire(std::max(bytes, place.bytes), fallen.alignment,
                                                   BufferKind::kActivation, options, fallen.block));
  slot.fallen.emplace(storage, std::move(fallen));
  return absl::OkStatus();
}

}  // namespace

PlannedSlot::PlannedSlot(std::unique_ptr<SlotState> state) : state_(std::move(state)) {}
PlannedSlot::PlannedSlot(PlannedSlot&& other) noexcept
    : state_(std::move(other.state_)), refused_(other.refused_) {}

PlannedSlot& PlannedSlot::operator=(PlannedSlot&& other) noexcept {
  if (this != &other) {
    Drop();
    state_ = std::move(other.state_);
    refused_ = other.refused_;
  }
  return *this;
}

PlannedSlot::~PlannedSlot() { Drop(); }

bool PlannedSlot::valid() const { return state_ != nullptr && state_->pool->valid(); }

absl::StatusOr<SlotBuffer> PlannedSlot::Acquire(const BufferName& buffer, uint64_t bytes,
                                                uint64_t alignment, const CallOptions& options) {
  if (state_ == nullptr) return SlotClosed();
  SlotState& slot = *state_;
  if (!slot.pool->valid()) return slot.pool->CheckUsable();
  TENURE_CLIENT_ASSIGN_OR_RETURN(const uint32_t index, IndexOf(slot, buffer));
  if (bytes == 0 || !std::has_single_bit(alignment)) {
    return MakeError(absl::StatusCode::kInvalidArgument, kInvalidRequest,
                     "a buffer has bytes, and an alignment that is a power of two",
                     {{"bytes", std::to_string(bytes)}, {"alignment", std::to_string(alignment)}});
  }
  if (slot.acquired[index] > 0) {
    return AboutBuffer(slot, kAcquired, "a buffer that is acquired already", index);
  }
  const uint32_t storage = slot.plan->storage_of(index);
  SlotState::StorageUse& use = slot.storages[storage];
  auto fallen = slot.fallen.find(storage);
  if (fallen == slot.fallen.end()) {
    const BufferUse& planned = slot.plan->uses()[index];
    absl::Status fits =
        bytes <= planned.bytes && alignment <= planned.alignment
            ? TakeBytes(slot, index)
            : AboutBuffer(slot, kPlanTooSmall,
                          "a buffer that is larger or more aligned than planned", index);
    if (!fits.ok()) {
      if (!slot.fall_back || use.acquired > 0) return fits;
      TENURE_CLIENT_RETURN_IF_ERROR(FallBack(slot, storage, bytes, alignment, options));
      fallen = slot.fallen.find(storage);
    }
  } else if (bytes > fallen->second.block.bytes || alignment > fallen->second.alignment) {
    return AboutBuffer(slot, kPlanTooSmall, "a view that is larger than its memory", index);
  }
  ++use.acquired;
  slot.acquired[index] = 1;
  const bool is_planned = fallen == slot.fallen.end();
  const uint64_t offset = is_planned ? slot.memory.offset + slot.plan->storages()[storage].offset
                                     : fallen->second.block.offset;
  return SlotBuffer{.data = slot.pool->base() + offset,
                    .size_bytes = bytes,
                    .offset = offset,
                    .planned = is_planned};
}

absl::Status PlannedSlot::AddView(const BufferName& buffer) {
  if (state_ == nullptr) return SlotClosed();
  TENURE_CLIENT_ASSIGN_OR_RETURN(const uint32_t index, IndexOf(*state_, buffer));
  if (state_->acquired[index] == 0) {
    return AboutBuffer(*state_, kNotAcquired, "a buffer that is not acquired", index);
  }
  ++state_->acquired[index];
  ++state_->storages[state_->plan->storage_of(index)].acquired;
  return absl::OkStatus();
}

absl::Status PlannedSlot::Release(const BufferName& buffer) {
  return Release(buffer, std::span<const Fence>());
}

absl::Status PlannedSlot::Release(const BufferName& buffer, const Fence& fence) {
  return Release(buffer, std::span<const Fence>(&fence, 1));
}

absl::Status PlannedSlot::Release(const BufferName& buffer, std::initializer_list<Fence> fences) {
  return Release(buffer, std::span<const Fence>(fences.begin(), fences.size()));
}

absl::Status PlannedSlot::Release(const BufferName& buffer, std::span<const Fence> fences) {
  if (state_ == nullptr) return SlotClosed();
  SlotState& slot = *state_;
  TENURE_CLIENT_ASSIGN_OR_RETURN(const uint32_t index, IndexOf(slot, buffer));
  if (slot.acquired[index] == 0) {
    return AboutBuffer(slot, kNotAcquired, "a buffer that is not acquired", index);
  }
  if (absl::Status checked = slot.pool->CheckFences(fences); !checked.ok()) {
    slot.refused.push_back(index);
    return checked;
  }
  std::erase(slot.refused, index);
  const uint32_t storage = slot.plan->storage_of(index);
  SlotState::StorageUse& use = slot.storages[storage];
  --slot.acquired[index];
  --use.acquired;
  if (const auto fallen = slot.fallen.find(storage); fallen != slot.fallen.end()) {
    fallen->second.readers.Add(fences);
    if (use.acquired > 0) return absl::OkStatus();
    const SlotState::FallBack& memory = fallen->second;
    absl::Status released = slot.pool->ReleaseRead(memory.block, memory.readers.fences(), {});
    slot.fallen.erase(fallen);
    return released;
  }
  use.readers.Add(fences);
  if (slot.acquired[index] == 0) use.released = index;
  if (use.acquired == 0 && use.readers.empty()) LetGoOfBytes(slot, storage);
  return absl::OkStatus();
}

absl::Status PlannedSlot::Close() { return Close(std::span<const Fence>()); }

absl::Status PlannedSlot::Close(const Fence& fence) {
  return Close(std::span<const Fence>(&fence, 1));
}

absl::Status PlannedSlot::Close(std::initializer_list<Fence> fences) {
  return Close(std::span<const Fence>(fences.begin(), fences.size()));
}

absl::Status PlannedSlot::Close(std::span<const Fence> fences) {
  if (state_ == nullptr) return SlotClosed();
  SlotState& slot = *state_;
  if (absl::Status checked = slot.pool->CheckFences(fences); !checked.ok()) {
    refused_ = true;
    return checked;
  }
  HeldFences readers;
  for (const uint32_t storage : slot.taken) {
    SlotState::StorageUse& use = slot.storages[storage];
    readers.Add(use.readers.fences());
    use.readers.Clear();
  }
  for (auto& [storage, fallen] : slot.fallen) {
    TENURE_CLIENT_RETURN_IF_ERROR(
        slot.pool->ReleaseRead(fallen.block, fallen.readers.fences(), fences));
  }
  TENURE_CLIENT_RETURN_IF_ERROR(slot.pool->ReleaseRead(slot.memory, readers.fences(), fences));
  if (!slot.taken.empty() || !slot.fallen.empty()) {
    std::ranges::fill(slot.acquired, 0);
    for (SlotState::StorageUse& use : slot.storages) use.acquired = 0;
  }
  slot.taken.clear();
  slot.fallen.clear();
  slot.refused.clear();
  slot.pool = nullptr;
  const std::shared_ptr<const PlanState> plan = std::move(slot.plan);
  plan->ReturnState(std::move(state_));
  return absl::OkStatus();
}

void PlannedSlot::Drop() {
  if (state_ == nullptr) return;
  if (!refused_ && state_->refused.empty() && Close().ok()) return;
  // Somebody may read it.
  for (const auto& [storage, fallen] : state_->fallen) state_->pool->ReleaseNever(fallen.block);
  state_->pool->ReleaseNever(state_->memory);
  state_ = nullptr;
}

}  // namespace tenure::client
