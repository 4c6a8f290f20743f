#pragma once

#include <absl/status/status.h>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "client/cpp/cuda_events.h"
#include "client/cpp/unique_fd.h"

namespace tenure::client {

// A pool as this process sees it: one reserved range of addresses, aligned at 2 MiB or more, in
// which segments are mapped, for reading and writing, each at its offset. A forked child does not
// get it. Sizes and offsets are in bytes. Calls for different segments may overlap, others not.
class PoolMapping {
 public:
  PoolMapping(const PoolMapping&) = delete;
  PoolMapping& operator=(const PoolMapping&) = delete;
  virtual ~PoolMapping() = default;

  // Maps the first `bytes` of `fd` there, and closes it. INTERNAL if the memory is less than that,
  // or the place is not in the range. After an error something may be mapped there, until Unmap.
  virtual absl::Status Map(UniqueFd fd, uint64_t offset, uint64_t bytes) = 0;
  // Takes it out again, if it is there. After UNAVAILABLE everything is as it was: try again later.
  // After any other error the memory stays mapped for as long as the process lives.
  virtual absl::Status Unmap(uint64_t offset, uint64_t bytes) = 0;

  // Whether mapping and unmapping may take as long as a device likes.
  virtual bool waits() const = 0;
  // Of the CUDA device on which `base` is an address; nullopt if it is one of the host's.
  virtual std::optional<int> cuda_ordinal() const = 0;

  // For the fences of its buffers.
  virtual std::shared_ptr<CudaEvents> cuda_events() const = 0;

  std::byte* base() const { return base_; }
  uint64_t size_bytes() const { return size_bytes_; }

 protected:
  PoolMapping(std::byte* base, uint64_t size_bytes) : base_(base), size_bytes_(size_bytes) {}

  // INTERNAL if a segment cannot lie there.
  absl::Status CheckPlace(uint64_t offset, uint64_t bytes, uint64_t page_bytes) const;

 private:
  std::byte* const base_;
  const uint64_t size_bytes_;
};

}  // namespace tenure::client
