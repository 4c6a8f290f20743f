#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "core/base/status.h"
#include "core/base/unique_fd.h"
#include "core/base/units.h"

namespace tenure {

// Which arena a Segment belongs to: clients read weights, and write what is runtime's.
enum class SegmentUse { kWeights, kRuntime };
inline constexpr size_t kSegmentUses = 2;

// An address in a GPU's own memory, which the CPU must not touch. 0: none.
class DeviceAddress {
 public:
  constexpr DeviceAddress() = default;
  constexpr explicit DeviceAddress(uint64_t value) : value_(value) {}
  constexpr uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0;
};

// One physical allocation of a Device: indivisible, exportable as one fd, mapped writable for the
// daemon from creation to destruction; a SegmentWriter puts bytes into it. Move-only; the
// destructor unmaps and gives the memory back to the backend, which may take long: never run it
// under a lock. One that was moved from may only be destroyed or assigned to. Thread-compatible.
class Segment {
 public:
  // What a backend keeps for a Segment. The destructor releases it and must not fail.
  class Backing {
   public:
    virtual ~Backing() = default;
    virtual Bytes size() const = 0;
    virtual std::span<std::byte> host_view() const = 0;
    virtual DeviceAddress device_address() const { return {}; }
    virtual StatusOr<UniqueFd> Export() const = 0;
  };

  explicit Segment(std::unique_ptr<Backing> backing) : backing_(std::move(backing)) {}

  Bytes size() const { return backing_->size(); }

  // The daemon's own writable map of all of it: for the CPU, or for the GPU that it is on. The
  // other of the two is empty.
  std::span<std::byte> host_view() const { return backing_->host_view(); }
  DeviceAddress device_address() const { return backing_->device_address(); }

  // A new fd through which another process maps the same memory, for reading only if it is for
  // weights. Close it once it is sent. BACKEND if the process is out of fds.
  StatusOr<UniqueFd> Export() const { return backing_->Export(); }

 private:
  std::unique_ptr<Backing> backing_;
};

}  // namespace tenure
