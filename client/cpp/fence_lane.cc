#include "client/cpp/fence_lane.h"

#include <algorithm>
#include <utility>

namespace tenure::client {
namespace {

constexpr auto kLater = [](const FenceLane::Entry& a, const FenceLane::Entry& b) {
  return a.value > b.value;
};

}  // namespace

FenceLane::FenceLane(FenceLane&& other) noexcept
    : timeline_(std::exchange(other.timeline_, nullptr)),
      generation_(other.generation_),
      ring_(std::move(other.ring_)),
      first_(other.first_),
      count_(std::exchange(other.count_, 0)),
      heap_(std::move(other.heap_)) {}

FenceLane& FenceLane::operator=(FenceLane&& other) noexcept {
  std::swap(timeline_, other.timeline_);
  std::swap(generation_, other.generation_);
  std::swap(ring_, other.ring_);
  std::swap(first_, other.first_);
  std::swap(count_, other.count_);
  std::swap(heap_, other.heap_);
  return *this;
}

FenceLane::~FenceLane() {
  if (timeline_ != nullptr) timeline_->Drop();
}

void FenceLane::Widen() {
  std::rotate(ring_.begin(), ring_.begin() + static_cast<std::ptrdiff_t>(first_), ring_.end());
  first_ = 0;
  ring_.resize(2 * ring_.size());
}

void FenceLane::AddOutOfOrder(const Entry& entry) {
  heap_.push_back(entry);
  std::push_heap(heap_.begin(), heap_.end(), kLater);
}

void FenceLane::DropFirstOfHeap() {
  std::pop_heap(heap_.begin(), heap_.end(), kLater);
  heap_.pop_back();
}

}  // namespace tenure::client
