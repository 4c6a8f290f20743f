// The input is a safetensors file.

#include <utility>

#include "core/base/check.h"
#include "core/checkpoint/shard.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/invariants.h"
#include "tests/fuzz/memory_files.h"

namespace tenure {
namespace {

constexpr char kPath[] = "/models/a.safetensors";

bool ParseAndCheck(const OpenCheckpoint& checkpoint) {
  const Shard& shard = checkpoint.shards.front();
  const StatusOr<std::vector<HeaderEntry>> entries = ParseShard(shard);
  const StatusOr<std::vector<TensorSource>> tensors = ParseTensors(checkpoint);
  TENURE_CHECK(entries.ok() == tensors.ok());
  if (!entries.ok()) {
    CheckRefusal(entries.status(), kPath);
    TENURE_CHECK(tensors.status() == entries.status());
    return false;
  }
  CheckEntries(shard.header, *entries, shard.payload_begin, shard.stat.size);
  CheckTensors(checkpoint, *tensors);
  return true;
}

}  // namespace

bool AcceptsInput(std::string_view input) {
  const Bytes size(input.size());
  StatusOr<Shard> shard =
      ReadShard(std::make_unique<MemoryFile>(kPath, std::string(input), size), kMaxHeader);
  if (!shard.ok()) {
    CheckRefusal(shard.status(), kPath);
    return false;
  }
  TENURE_CHECK(shard->payload_begin == Bytes(8 + shard->header.size()));
  TENURE_CHECK(shard->stat.size == size && shard->payload_begin <= size);
  OpenCheckpoint checkpoint;
  checkpoint.shards.push_back(*std::move(shard));
  const bool accepted = ParseAndCheck(checkpoint);
  // The same header before the payload that it asks for, of which the input need hold nothing.
  Shard& only = checkpoint.shards.front();
  only.stat.size = only.payload_begin + PayloadAskedFor(only.header);
  ParseAndCheck(checkpoint);
  return accepted;
}

}  // namespace tenure
