#pragma once

#include <absl/status/status.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tenure/export.h"

namespace tenure::client {

// One tensor of a lease. Everything it points to lives as long as the lease object.
struct Tensor {
  std::string_view name;
  std::string_view dtype;           // "F32": the file format's own name
  std::span<const uint64_t> shape;  // empty: one element
  std::span<const std::byte> bytes;
};

// The right to read one model's weights in place, read-only: writing through `base()` is a fault. A
// value that is moved, never copied; its destructor releases the lease. The mapping stays cached in
// the client, so that leasing the region again costs one call and no mapping.
//
// While `valid()`, the addresses, the layout and the content stay as they are. A lease is lost when
// the daemon says so, when the daemon is gone, or when it has not answered heartbeats for the time
// to live. What is mapped stays readable until this object is gone, but once the lease is lost the
// content may be another model's: check `valid()` after reading, drop the lease and acquire a new
// one.
//
// A lease keeps its client's connection open. In a forked child it is invalid, and its memory is
// not mapped there.
//
// Thread-compatible: const functions may run at the same time.
class TENURE_CLIENT_API WeightLease {
 public:
  // Visits the tensors in canonical order: names bytewise ascending.
  class TENURE_CLIENT_API Iterator {
   public:
    using value_type = Tensor;
    using difference_type = std::ptrdiff_t;

    Iterator(const WeightLease* lease, size_t index) : lease_(lease), index_(index) {}
    Tensor operator*() const { return lease_->tensor(index_); }
    Iterator& operator++() {
      ++index_;
      return *this;
    }
    void operator++(int) { ++index_; }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    const WeightLease* lease_;
    size_t index_;
  };

  class Impl;

  // For the library: an Impl is made by Client only.
  explicit WeightLease(std::unique_ptr<Impl> impl);
  WeightLease(WeightLease&& other) noexcept;
  WeightLease& operator=(WeightLease&& other) noexcept;
  ~WeightLease();

  // False once the lease is lost, released or moved from, and then for ever.
  bool valid() const;
  // Why it is not valid, as in errors.h: "LEASE_EXPIRED", "DAEMON_GONE". Empty while it is.
  std::string lost_reason() const;

  // Ends the lease now and waits for the daemon's word, two seconds at most. LEASE_EXPIRED if it
  // had been lost before; whatever the answer, this object is empty afterwards.
  absl::Status Release();

  // REQUIRES for all below: neither released nor moved from.
  uint64_t lease_id() const;
  // The model.
  const std::string& name() const;
  uint64_t revision() const;
  const std::string& device() const;
  // The region and the content of it that this lease is for.
  uint64_t region_id() const;
  uint64_t generation() const;
  const std::string& architecture_key() const;

  // The mapped range, aligned at 2 MiB. `size_bytes` is the region's, padding included.
  const std::byte* base() const;
  uint64_t size_bytes() const;

  // Takes constant time whatever the number of tensors. nullopt if the model has no such tensor.
  std::optional<Tensor> Find(std::string_view tensor_name) const;
  size_t tensor_count() const;
  // REQUIRES: index < tensor_count().
  Tensor tensor(size_t index) const;
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, tensor_count()}; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace tenure::client

namespace tenure {
using client::WeightLease;
}  // namespace tenure
