#pragma once

#include <memory>
#include <utility>

#include "core/device/device.h"
#include "tests/support/faulty_steps.h"

namespace tenure {

// A Device, any of whose creations and exports can go wrong. Thread-safe.
class FaultyDevice final : public Device {
 public:
  // `steps` outlives the Device and its Segments.
  FaultyDevice(std::unique_ptr<Device> device, FaultySteps& steps)
      : device_(std::move(device)), steps_(steps) {}

  const DeviceInfo& info() const override { return device_->info(); }

  StatusOr<Segment> CreateSegment(Bytes size) override {
    if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: create");
    TENURE_ASSIGN_OR_RETURN(Segment segment, device_->CreateSegment(size));
    return Segment(std::make_unique<Memory>(std::move(segment), steps_));
  }

  BackendCounters counters() const override { return device_->counters(); }
  std::optional<Bytes> stranded() const override { return device_->stranded(); }
  void UpdateStranded() override { device_->UpdateStranded(); }

 private:
  class Memory final : public Segment::Backing {
   public:
    Memory(Segment segment, FaultySteps& steps) : segment_(std::move(segment)), steps_(steps) {}
    Bytes size() const override { return segment_.size(); }
    std::span<std::byte> host_view() const override { return segment_.host_view(); }
    StatusOr<UniqueFd> Export() const override {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: export");
      return segment_.Export();
    }

   private:
    const Segment segment_;
    FaultySteps& steps_;
  };

  const std::unique_ptr<Device> device_;
  FaultySteps& steps_;
};

}  // namespace tenure
