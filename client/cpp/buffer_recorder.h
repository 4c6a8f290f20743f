#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tenure/buffer_recording.h"

namespace tenure::client {

// What BufferRecording shows. Notes have numbers that are never used again, so that a buffer that
// ends after its recording changes nothing in the next. Thread-compatible.
class BufferRecorder {
 public:
  // REQUIRES: not on.
  void Start() {
    first_note_ = next_note();
    buffers_.clear();
    step_ = 0;
    on_ = true;
  }
  bool on() const { return on_; }
  std::vector<RecordedBuffer> Finish() {
    on_ = false;
    first_note_ = next_note();
    return std::exchange(buffers_, {});
  }

  // A step. Returns the number of the note, which is not 0. REQUIRES: on.
  uint32_t Acquired(uint64_t bytes, uint64_t alignment, BufferKind kind) {
    const uint32_t note = next_note();
    buffers_.push_back(
        {.bytes = bytes, .alignment = alignment, .kind = kind, .first_step = step_++});
    return note;
  }
  // A step, of one buffer or of several.
  void Released() { ++step_; }
  // The buffer of this note is not read any more, from `step` on. Nothing if it is of no note, or
  // of an earlier recording.
  void Ended(uint32_t note, uint64_t step) {
    if (note < first_note_ || note >= next_note()) return;
    buffers_[note - first_note_].end_step = step;
  }
  uint64_t next_step() const { return step_; }

 private:
  uint32_t next_note() const { return first_note_ + static_cast<uint32_t>(buffers_.size()); }

  bool on_ = false;
  uint32_t first_note_ = 1;
  std::vector<RecordedBuffer> buffers_;
  uint64_t step_ = 0;
};

}  // namespace tenure::client
