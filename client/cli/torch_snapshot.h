#pragma once

#include <string>

#include "client/cli/memory_map.h"

namespace tenure::cli {

// The map as PyTorch's torch.cuda.memory._snapshot() gives one, pickled, for its memory viewer
// (https://pytorch.org/memory_viz) and its own tools. A region is a segment with one block, which
// is inactive while the region is retained; what lies side by side of a pool is a segment with its
// buffers as blocks; what is cached are segments with one inactive block. Frames name the model or
// the program, and the state. Addresses are made up: the first device's begin at 2^46. There is no
// history of events.
std::string TorchSnapshot(const MemoryMap& map);

}  // namespace tenure::cli
