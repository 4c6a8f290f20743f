#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tenure/buffer_kind.h"
#include "tenure/export.h"

namespace tenure::client {

class LocalPool;

// A buffer as it was used. Steps count what was done to the pool, each acquire and each release one
// step, from 0 on.
struct RecordedBuffer {
  uint64_t bytes = 0;
  uint64_t alignment = 0;
  BufferKind kind = BufferKind::kActivation;
  // In use during [first_step, end_step): from its acquire to the end of its last reader. Without
  // fences that is the step of its release; with fences, the step that was next when the last of
  // them was seen to be reached. nullopt if that was not seen.
  uint64_t first_step = 0;
  std::optional<uint64_t> end_step{};

  friend bool operator==(const RecordedBuffer&, const RecordedBuffer&) = default;
};

// Notes what buffers are acquired of a pool, by all threads, for a planner: over one request, while
// nothing else uses the pool. Ends when it is destroyed. Thread-compatible.
class TENURE_CLIENT_API BufferRecording {
 public:
  // For the library: BufferPool::Record makes them.
  explicit BufferRecording(std::shared_ptr<LocalPool> pool);
  BufferRecording(BufferRecording&&) noexcept;
  BufferRecording& operator=(BufferRecording&&) noexcept;
  ~BufferRecording();

  // Ends it. The buffers that were acquired since it began, in that order; none if it has ended
  // before or was moved from.
  std::vector<RecordedBuffer> Finish();

 private:
  std::shared_ptr<LocalPool> pool_;  // null once ended
};

}  // namespace tenure::client

namespace tenure {
using client::BufferRecording;
using client::RecordedBuffer;
}  // namespace tenure
