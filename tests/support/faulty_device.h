#pragma once

#include <memory>
#include <utility>

#include "core/device/device.h"
#include "tests/support/faulty_steps.h"

namespace tenure {

// A Device, any of whose creations, exports and copies can go wrong. Thread-safe.
class FaultyDevice final : public Device {
 public:
  // `steps` outlives the Device and its Segments.
  FaultyDevice(std::unique_ptr<Device> device, FaultySteps& steps)
      : device_(std::move(device)), steps_(steps) {}

  const DeviceInfo& info() const override { return device_->info(); }

  StatusOr<std::vector<Segment>> CreateSegments(SegmentUse use,
                                                std::span<const Bytes> sizes) override {
    std::vector<Segment> segments;
    for (const Bytes size : sizes) {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: create");
      TENURE_ASSIGN_OR_RETURN(Segment segment, device_->CreateSegment(use, size));
      segments.emplace_back(std::make_unique<Memory>(std::move(segment), steps_));
    }
    return segments;
  }

  StatusOr<std::unique_ptr<SegmentWriter>> OpenWriter() override {
    TENURE_ASSIGN_OR_RETURN(std::unique_ptr<SegmentWriter> writer, device_->OpenWriter());
    return std::make_unique<Writer>(std::move(writer), steps_);
  }

  BackendCounters counters() const override { return device_->counters(); }
  Bytes foreign() const override { return device_->foreign(); }
  std::optional<Bytes> stranded(SegmentUse use) const override { return device_->stranded(use); }
  Status Look() override { return device_->Look(); }

 private:
  class Memory final : public Segment::Backing {
   public:
    Memory(Segment segment, FaultySteps& steps) : segment_(std::move(segment)), steps_(steps) {}
    Bytes size() const override { return segment_.size(); }
    std::span<std::byte> host_view() const override { return segment_.host_view(); }
    DeviceAddress device_address() const override { return segment_.device_address(); }
    StatusOr<UniqueFd> Export() const override {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: export");
      return segment_.Export();
    }

   private:
    const Segment segment_;
    FaultySteps& steps_;
  };

  class Writer final : public SegmentWriter {
   public:
    Writer(std::unique_ptr<SegmentWriter> writer, FaultySteps& steps)
        : writer_(std::move(writer)), steps_(steps) {}
    StatusOr<std::span<std::byte>> Prepare(const Segment& segment, Range target) override {
      return writer_->Prepare(segment, target);
    }
    Status Commit() override {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: copy");
      return writer_->Commit();
    }
    Status Finish() override {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: wait");
      return writer_->Finish();
    }

   private:
    Status QueueCopy(const Segment& source, Range from, const Segment& target, Bytes to) override {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: copy");
      return writer_->CopyAcross(source, from, target, to);
    }
    Status QueueFill(const Segment& segment, Range target, std::byte value) override {
      if (steps_.Fails()) return Error(Reason::kBackend, "the backend was told to fail: fill");
      return writer_->Fill(segment, target, value);
    }

    const std::unique_ptr<SegmentWriter> writer_;
    FaultySteps& steps_;
  };

  const std::unique_ptr<Device> device_;
  FaultySteps& steps_;
};

}  // namespace tenure
