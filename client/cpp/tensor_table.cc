#include "client/cpp/tensor_table.h"

#include <algorithm>
#include <utility>

#include "client/cpp/error.h"

namespace tenure::client {
namespace {

// How many tables are kept whether they are used or not.
constexpr size_t kKept = 64;

}  // namespace

absl::StatusOr<std::shared_ptr<const TensorTable>> TensorTable::Build(
    std::vector<TensorPlace> places) {
  std::shared_ptr<TensorTable> table(new TensorTable);
  table->places_ = std::move(places);
  table->by_name_.reserve(table->places_.size());
  const TensorPlace* previous = nullptr;
  for (const TensorPlace& place : table->places_) {
    if (previous != nullptr && !(previous->name < place.name)) {
      return ProtocolError("tensor names do not ascend: " + place.name);
    }
    if (place.offset > UINT64_MAX - place.bytes) {
      return ProtocolError("a tensor lies beyond all addresses: " + place.name);
    }
    previous = &place;
    table->by_name_.emplace(place.name, table->by_name_.size());
    table->extent_bytes_ = std::max(table->extent_bytes_, place.offset + place.bytes);
  }
  return table;
}

const TensorPlace* TensorTable::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &places_[found->second];
}

std::shared_ptr<const TensorTable> TensorTableCache::Find(
    const std::string& architecture_key) const {
  const std::lock_guard lock(mutex_);
  const auto found = tables_.find(architecture_key);
  return found == tables_.end() ? nullptr : found->second;
}

std::shared_ptr<const TensorTable> TensorTableCache::Put(const std::string& architecture_key,
                                                         std::shared_ptr<const TensorTable> table) {
  const std::lock_guard lock(mutex_);
  if (tables_.size() >= kKept) {
    std::erase_if(tables_, [](const auto& entry) { return entry.second.use_count() == 1; });
  }
  return tables_.emplace(architecture_key, std::move(table)).first->second;
}

}  // namespace tenure::client
