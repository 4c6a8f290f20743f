#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <cstddef>
#include <cstdint>

#include "client/cpp/unique_fd.h"

namespace tenure::client {

// A region as this process sees it: one reserved range, aligned at 2 MiB, into which the region's
// segments are mapped side by side, read-only. A forked child does not get it. Move-only; unmaps in
// the destructor. Sizes are in bytes. Thread-compatible.
//
//   0 <= mapped_bytes <= size_bytes; what is not mapped yet cannot be read.
class Mapping {
 public:
  // Reserves addresses only. RESOURCE_EXHAUSTED if there are none.
  static absl::StatusOr<Mapping> Reserve(uint64_t size_bytes);

  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping() { Unmap(); }

  // Maps the first `segment_bytes` of `fd` after what is mapped already, and closes it. INTERNAL if
  // the file is shorter, or the segment is empty, not of whole pages, or does not fit.
  absl::Status Append(UniqueFd fd, uint64_t segment_bytes);

  // Gives the addresses back. What was read through them must not be touched any more.
  void Unmap();

  const std::byte* base() const { return base_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }
  bool complete() const { return base_ != nullptr && mapped_bytes_ == size_bytes_; }

 private:
  std::byte* base_ = nullptr;
  uint64_t size_bytes_ = 0;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace tenure::client
