#pragma once

#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tenure/model.h"

namespace tenure::client {

// The tensors of one architecture in canonical order, found by name in constant time. Immutable, so
// thread-safe.
class TensorTable {
 public:
  // INTERNAL if the names do not ascend, or a place overflows.
  static absl::StatusOr<std::shared_ptr<const TensorTable>> Build(std::vector<TensorPlace> places);

  TensorTable(const TensorTable&) = delete;
  TensorTable& operator=(const TensorTable&) = delete;

  size_t size() const { return places_.size(); }
  // REQUIRES: index < size().
  const TensorPlace& operator[](size_t index) const { return places_[index]; }
  // Null if there is none.
  const TensorPlace* Find(std::string_view name) const;
  // The end of the last tensor: a region with this table has at least so many bytes.
  uint64_t extent_bytes() const { return extent_bytes_; }

 private:
  TensorTable() = default;

  std::vector<TensorPlace> places_;
  std::unordered_map<std::string_view, size_t> by_name_;  // into places_, which never changes
  uint64_t extent_bytes_ = 0;
};

// The tables that were seen, by architecture key. Forgets those that nobody uses once there are
// many. Thread-safe.
class TensorTableCache {
 public:
  // Null if it is not known.
  std::shared_ptr<const TensorTable> Find(const std::string& architecture_key) const;
  // Keeps the first of two for one key, and returns the one kept.
  std::shared_ptr<const TensorTable> Put(const std::string& architecture_key,
                                         std::shared_ptr<const TensorTable> table);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const TensorTable>> tables_;  // guarded by mutex_
};

}  // namespace tenure::client
