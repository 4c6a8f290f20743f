#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "client/cpp/pool_block.h"
#include "client/cpp/timeline_state.h"
#include "tenure/fence.h"

namespace tenure::client {

class LocalPool;

// What is behind a BufferScope. Its vectors are used again by later scopes. Thread-compatible.
struct ScopeState {
  // Someone reads bytes [offset, end) until the fence is reached.
  struct Reader {
    uint64_t offset;
    uint64_t end;
    Fence fence;
    TimelineState* timeline;  // a reference to the fence's, or null
  };
  ~ScopeState() { DropReaders(); }
  void DropReaders() {
    for (const Reader& reader : readers) {
      if (reader.timeline != nullptr) reader.timeline->Drop();
    }
    readers.clear();
  }

  std::shared_ptr<LocalPool> pool;
  BufferKind kind = BufferKind::kActivation;
  bool recorded = false;          // each buffer has a block of its own
  std::vector<PoolBlock> blocks;  // the last one is in use
  std::vector<Reader> readers;
  std::vector<Fence> fences;  // scratch
};

}  // namespace tenure::client
