#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/file.h"
#include "core/base/status.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/safetensors.h"

namespace tenure {

// Reads the header of an open safetensors file. Its claimed length is held against the file's size,
// the format's limit and `header_room` before anything of that length is allocated.
// INVALID_CHECKPOINT names the file and, where it can tell, what the file is instead: a Git LFS
// pointer, a web page, ...
StatusOr<Shard> ReadShard(std::unique_ptr<ReadableFile> file, Bytes header_room);

// Parses a shard's header. Ranges of the result count from the start of the file. Errors are those
// of ParseSafetensorsHeader and name the file too.
StatusOr<std::vector<HeaderEntry>> ParseShard(const Shard& shard);

}  // namespace tenure
