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
#include "tenure/memory_kind.h"
#include "tenure/model.h"

namespace tenure::client {

// One tensor of a lease. Everything it points to lives as long as the lease object.
struct Tensor {
  std::string_view name;
  std::string_view dtype;           // "F32": the file format's own name
  std::span<const uint64_t> shape;  // empty: one element
  // Addresses of the device that the lease is on: see WeightLease::base.
  std::span<const std::byte> bytes;
  uint64_t offset = 0;  // from the region's base, in bytes; for WeightLease::CopyToHost
};

// The right to read one model's weights in place, read-only. A value that is moved, never copied;
// its destructor releases the lease. The mapping stays cached in the client, so that leasing the
// region again costs one call and no mapping, and gives the same addresses.
//
// On the host writing through `base()` is a fault. On a CUDA device it ends the work of the whole
// process there: the device faults (Xid 31), and every later CUDA call in the process fails. The
// weights of others are safe either way.
//
// On a CUDA device kernels and copies may still read when the call that started them has returned:
// synchronise with them before the lease is released, as the daemon may give the memory to another
// model at once.
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

  // Where the memory lies. The UUID is that of the device, "GPU-" and so on if it is CUDA's.
  MemoryKind memory_kind() const;
  const std::string& device_uuid() const;
  // The device's number in this process, as the CUDA driver counts the devices that it shows here.
  // nullopt on the host, and for a region of no bytes.
  std::optional<int> cuda_ordinal() const;

  // The mapped range, aligned at 2 MiB. `size_bytes` is the region's, padding included. On a CUDA
  // device these are addresses of the device, good in its primary context, which is the one that
  // CUDA's runtime uses: the CPU must not touch them, CopyToHost reads what is there.
  const std::byte* base() const;
  uint64_t size_bytes() const;

  // Reads bytes of the region, from `offset` on, into memory of the host; returns when they are
  // there. Checks nothing but the range: `valid()` says afterwards whether they are this model's.
  //
  // On a CUDA device it copies in a stream of its own, waits for no other, and leaves the thread's
  // current context and its stream captures as they are.
  //
  // OUT_OF_RANGE beyond `size_bytes`. FAILED_PRECONDITION with reason FORKED in a forked child.
  // With reason CUDA_FAILED what the driver says, also of what other CUDA calls of this process
  // have broken before.
  absl::Status CopyToHost(uint64_t offset, std::span<std::byte> into) const;

  // Takes constant time whatever the number of tensors. nullopt if the model has no such tensor.
  std::optional<Tensor> Find(std::string_view tensor_name) const;
  size_t tensor_count() const;
  // REQUIRES: index < tensor_count().
  Tensor tensor(size_t index) const;
  Iterator begin() const { return {this, 0}; }
  Iterator end() const { return {this, tensor_count()}; }

 private:
  Tensor At(const TensorPlace& place) const;

  std::unique_ptr<Impl> impl_;
};

}  // namespace tenure::client

namespace tenure {
using client::WeightLease;
}  // namespace tenure
