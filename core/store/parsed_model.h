#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/base/digest.h"
#include "core/base/mutex.h"
#include "core/base/status.h"
#include "core/base/units.h"
#include "core/checkpoint/checkpoint.h"
#include "core/layout/layout.h"

namespace tenure {

// What the headers of a checkpoint say: its Layout, and which bytes of which file go where in it.
// Holds for every checkpoint with the same headers.
struct ParsedModel {
  struct Source {
    size_t shard = 0;
    Bytes offset;  // in the shard's file
    Range target;  // in the Region; never empty
  };

  Layout layout;
  std::vector<Source> sources;  // in the order of the shards and within each of the file
};

// Errors as in ParseTensors and Layout::Of.
StatusOr<ParsedModel> ParseModel(const OpenCheckpoint& checkpoint);

// Remembers what was parsed last: most models that come have the headers of one that was just
// there. Thread-safe; two callers may parse the same headers at once.
class ParsedModels {
 public:
  // Keeps headers of at most `limit` bytes in all.
  explicit ParsedModels(Bytes limit) : limit_(limit) {}

  // As ParseModel. Headers that were refused are not remembered.
  StatusOr<std::shared_ptr<const ParsedModel>> Parse(const OpenCheckpoint& checkpoint);

  // Bytes of the headers that are kept.
  Bytes kept() const;

 private:
  struct Entry {
    std::string headers;
    Digest128 digest;  // of `headers`
    std::shared_ptr<const ParsedModel> model;
  };
  using Entries = std::list<Entry>;  // used last first

  std::shared_ptr<const ParsedModel> Find(const std::string& headers, Digest128 digest);
  void Keep(std::string headers, Digest128 digest, std::shared_ptr<const ParsedModel> model);

  const Bytes limit_;
  mutable Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<Digest128, Entries::iterator> by_digest_ ABSL_GUARDED_BY(mutex_);
  Bytes kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tenure
