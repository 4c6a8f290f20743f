#pragma once

// Checkpoints on disk: found, parsed and checked here, before any memory is taken. Nothing in this
// folder allocates more than what a file really holds.

#include <memory>
#include <string>
#include <vector>

#include "core/base/content_id.h"
#include "core/base/file.h"
#include "core/base/status.h"
#include "core/layout/tensor_spec.h"

namespace tenure {

// A directory under which models may lie. `path` is canonical (absolute, no symbolic links).
struct ModelRoot {
  std::string name;
  std::string path;
};

// One file of a checkpoint, open, with its header still in memory as raw bytes.
struct Shard {
  std::unique_ptr<ReadableFile> file;
  FileStat stat;        // at open
  std::string header;   // the JSON text
  Bytes payload_begin;  // offset in the file of the first tensor byte
};

// A checkpoint whose files are open and whose identity is known, but whose headers are not parsed:
// cheap enough for the answer that the content is loaded already.
struct OpenCheckpoint {
  std::string path;  // canonical path of the file, or of the index or only file of a directory
  ContentId content;
  std::vector<Shard> shards;  // with an index: by name, each once
  std::string index;          // text of model.safetensors.index.json; empty without one
};

// Opens what `source` names: `ROOT/relative` with the name of a root, or an absolute path under
// one, without "..". It is one `.safetensors` file, or a directory with
// `model.safetensors.index.json` and its shards, which alone are looked at, or a directory with
// exactly one `.safetensors` file. Parses no JSON but an index.
//
// INVALID_REQUEST for an empty source, PATH_OUTSIDE_ROOTS, FILE_NOT_FOUND (naming the missing
// shards in one message, at most 24 of them). INVALID_CHECKPOINT for a header length that is zero,
// beyond the file or, for all shards together, over 100 MB; a Git LFS pointer; a broken index or
// one of over 1024 shards; a directory with several files and no index, or with one shard of
// several and no index.
StatusOr<OpenCheckpoint> OpenModel(FileLayer& files, const std::vector<ModelRoot>& roots,
                                   const std::string& source);

// Where the bytes of one tensor lie: `range` counts from the start of the shard's file.
struct TensorSource {
  TensorSpec spec;
  size_t shard = 0;
  Range range;
};

// Parses and checks every header, and the index against them. The result is in no particular order;
// no two of its tensors have one name.
//
// INVALID_CHECKPOINT, naming file and tensor: JSON that is not what the format says, duplicate
// keys, offsets that are no integers, overlap, leave holes or trailing bytes, or do not match shape
// and dtype; an index and shards that disagree: a shard that lacks a tensor mapped to it, or holds
// one that the index does not name. Of several copies of a tensor the index decides which is taken.
// UNSUPPORTED_DTYPE for a dtype of a later format.
StatusOr<std::vector<TensorSource>> ParseTensors(const OpenCheckpoint& checkpoint);

// FILE_CHANGED if a shard is no longer the size and time that it was at open.
Status CheckUnchanged(const OpenCheckpoint& checkpoint);

}  // namespace tenure
