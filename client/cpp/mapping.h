#pragma once

#include <absl/status/status.h>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "client/cpp/unique_fd.h"

namespace tenure::client {

// A region as this process sees it: one reserved range, aligned at 2 MiB or more, into which the
// region's segments are mapped side by side, read-only. A forked child does not get it. Sizes are
// in bytes. Thread-compatible.
//
//   0 <= mapped_bytes <= size_bytes; nothing can be read before `complete`.
class Mapping {
 public:
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // Unmaps, unless an Unmap has failed.
  virtual ~Mapping() = default;

  // Maps the first `segment_bytes` of `fd` after what is mapped already, and closes it. INTERNAL if
  // the memory is less than that, or the segment is empty, not of whole pages, or does not fit.
  virtual absl::Status Append(UniqueFd fd, uint64_t segment_bytes) = 0;

  // Gives the addresses back. What was read through them must not be touched any more. After
  // UNAVAILABLE everything is as it was: try again later. After any other error the memory stays
  // mapped, in part or whole, for as long as the process lives.
  virtual absl::Status Unmap() = 0;

  // Reads bytes of the region into memory of the host. OUT_OF_RANGE beyond the region.
  // REQUIRES: complete().
  virtual absl::Status CopyToHost(uint64_t offset, std::span<std::byte> into) const = 0;

  // Whether mapping and unmapping may take as long as a device likes.
  virtual bool waits() const = 0;
  // Of the CUDA device on which `base` is an address; nullopt if it is one of the host's.
  virtual std::optional<int> cuda_ordinal() const = 0;

  // Null once unmapped.
  const std::byte* base() const { return base_; }
  uint64_t size_bytes() const { return size_bytes_; }
  uint64_t mapped_bytes() const { return mapped_bytes_; }
  bool complete() const { return base_ != nullptr && mapped_bytes_ == size_bytes_; }

 protected:
  Mapping(const std::byte* base, uint64_t size_bytes) : base_(base), size_bytes_(size_bytes) {}

  // INTERNAL if no region can be of this size.
  static absl::Status CheckRegionSize(uint64_t bytes);
  // INTERNAL if it is not the size of a segment, of whole pages, that fits after what is mapped.
  absl::Status CheckSegmentSize(uint64_t bytes, uint64_t page_bytes) const;
  // OUT_OF_RANGE unless the bytes lie in the region.
  absl::Status CheckRange(uint64_t offset, uint64_t bytes) const;

  void SetMappedBytes(uint64_t bytes) { mapped_bytes_ = bytes; }
  // The range is gone.
  void Clear() {
    base_ = nullptr;
    size_bytes_ = 0;
    mapped_bytes_ = 0;
  }

 private:
  const std::byte* base_;
  uint64_t size_bytes_;
  uint64_t mapped_bytes_ = 0;
};

}  // namespace tenure::client
