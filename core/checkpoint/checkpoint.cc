#include "core/checkpoint/checkpoint.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>
#include <algorithm>
#include <span>

#include "core/base/digest.h"
#include "core/checkpoint/index.h"
#include "core/checkpoint/refusal.h"
#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/shard.h"
#include "core/checkpoint/source_path.h"

namespace tenure {
namespace {

constexpr char kIndexName[] = "model.safetensors.index.json";
constexpr char kSuffix[] = ".safetensors";
// Each shard holds a file descriptor for as long as its checkpoint is open.
constexpr size_t kMaxShards = 1024;

using WeightMap = std::vector<std::pair<std::string, std::string>>;

// The shards of an index, sorted and each once: the order of OpenCheckpoint::shards.
std::vector<std::string> ShardNames(const WeightMap& weight_map) {
  std::vector<std::string> names;
  for (const auto& [tensor, shard] : weight_map) {
    // Neighbours in the map mostly share a shard.
    if (names.empty() || names.back() != shard) names.push_back(shard);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

ContentId ContentOf(const OpenCheckpoint& checkpoint) {
  Digester digester;
  digester.Add(checkpoint.shards.size());
  for (const Shard& shard : checkpoint.shards) {
    digester.Add(shard.stat.device);
    digester.Add(shard.stat.inode);
    digester.Add(shard.stat.size.count());
    digester.Add(static_cast<uint64_t>(shard.stat.mtime_ns));
    digester.Add(shard.header);
  }
  digester.Add(checkpoint.index);
  return {digester.Finish()};
}

StatusOr<OpenCheckpoint> OpenFile(FileLayer& files, const std::string& path,
                                  const std::string& root) {
  TENURE_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path, root));
  OpenCheckpoint checkpoint;
  checkpoint.path = file->path();
  TENURE_ASSIGN_OR_RETURN(Shard shard, ReadShard(std::move(file), kMaxHeader));
  checkpoint.shards.push_back(std::move(shard));
  return checkpoint;
}

StatusOr<std::string> ReadIndex(const ReadableFile& file) {
  TENURE_ASSIGN_OR_RETURN(const FileStat stat, file.Stat());
  if (stat.size > kMaxHeader) {
    return RefuseFile(absl::StrCat("the index exceeds the limit of ", kMaxHeader.count(), " bytes"),
                      file.path());
  }
  std::string text(stat.size.count(), '\0');
  TENURE_RETURN_IF_ERROR(file.ReadAt(Bytes(0), std::as_writable_bytes(std::span(text))));
  return text;
}

// Opens what the index names and nothing else in the directory.
StatusOr<OpenCheckpoint> OpenIndexed(FileLayer& files, const std::string& directory,
                                     const std::string& root) {
  OpenCheckpoint checkpoint;
  TENURE_ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> index,
                          files.Open(absl::StrCat(directory, "/", kIndexName), root));
  checkpoint.path = index->path();
  TENURE_ASSIGN_OR_RETURN(checkpoint.index, ReadIndex(*index));
  const StatusOr<WeightMap> weight_map = ParseShardIndex(checkpoint.index);
  if (!weight_map.ok()) return InFile(weight_map.status(), checkpoint.path);
  const std::vector<std::string> names = ShardNames(*weight_map);
  if (names.size() > kMaxShards) {
    return RefuseFile(absl::StrCat("the index names more than ", kMaxShards, " shards"),
                      checkpoint.path);
  }

  std::vector<std::string> missing;
  Bytes header_room = kMaxHeader;
  for (const std::string& name : names) {
    auto file = files.Open(absl::StrCat(directory, "/", name), root);
    if (HasReason(file.status(), Reason::kFileNotFound)) {
      missing.push_back(name);
      continue;
    }
    if (!file.ok()) return file.status();
    TENURE_ASSIGN_OR_RETURN(Shard shard, ReadShard(*std::move(file), header_room));
    header_room -= Bytes(shard.header.size());
    checkpoint.shards.push_back(std::move(shard));
  }
  if (!missing.empty()) {
    return Error(Reason::kFileNotFound,
                 absl::StrCat(missing.size(), " of ", names.size(), " shards are missing in ",
                              directory, ": ", ShownNames(missing)),
                 {{"path", directory}, {"missing", absl::StrCat(missing.size())}});
  }
  return checkpoint;
}

// "...-00001-of-00003.safetensors": a part of something, by its own name.
bool IsOneOfSeveral(std::string_view name) {
  name.remove_suffix(std::string_view(kSuffix).size());
  const size_t digits = name.find_last_not_of("0123456789");
  if (digits == std::string_view::npos) return false;
  const std::string_view total = name.substr(digits + 1);
  return name.substr(0, digits + 1).ends_with("-of-") &&
         total.find_first_not_of('0') != std::string_view::npos &&
         total.substr(total.find_first_not_of('0')) != "1";
}

StatusOr<OpenCheckpoint> OpenDirectory(FileLayer& files, const std::string& directory,
                                       const std::string& root) {
  TENURE_ASSIGN_OR_RETURN(std::vector<std::string> names, files.List(directory));
  // Looked for by name, so that a dangling link is an error and not a checkpoint without an index.
  if (std::binary_search(names.begin(), names.end(), kIndexName)) {
    return OpenIndexed(files, directory, root);
  }
  std::erase_if(names, [](std::string_view name) { return !name.ends_with(kSuffix); });
  if (names.empty()) {
    return Error(Reason::kFileNotFound,
                 absl::StrCat("no .safetensors file in directory: ", directory),
                 {{"path", directory}});
  }
  // Also keeps the names of a directory outside the root, reached by a link, out of the messages.
  TENURE_ASSIGN_OR_RETURN(OpenCheckpoint checkpoint,
                          OpenFile(files, absl::StrCat(directory, "/", names.front()), root));
  if (names.size() > 1) {
    return RefuseFile(absl::StrCat("several .safetensors files (", ShownNames(names), ") and no ",
                                   kIndexName, " in directory"),
                      directory);
  }
  if (IsOneOfSeveral(names.front())) {
    return RefuseFile(absl::StrCat("one shard of several and no ", kIndexName, " beside it"),
                      checkpoint.path);
  }
  return checkpoint;
}

// Where each tensor of an index is to come from, and which of them were found.
class IndexedTensors {
 public:
  explicit IndexedTensors(const WeightMap& weight_map) : weight_map_(weight_map) {
    const std::vector<std::string> shards = ShardNames(weight_map);
    wanted_.reserve(weight_map.size());
    for (const auto& [tensor, shard] : weight_map) {
      const auto found = std::lower_bound(shards.begin(), shards.end(), shard);
      wanted_.emplace(tensor, Wanted{.shard = static_cast<size_t>(found - shards.begin())});
    }
  }

  // True if `tensor` is to come from `shard`. False for the copy that another shard's supersedes.
  StatusOr<bool> Takes(const std::string& tensor, size_t shard) {
    const auto found = wanted_.find(tensor);
    if (found == wanted_.end()) {
      return RefuseTensor("a shard holds a tensor that the index does not name", tensor);
    }
    if (found->second.shard != shard) return false;
    found->second.found = true;
    return true;
  }

  Status CheckComplete() const {
    for (const auto& [tensor, shard] : weight_map_) {
      if (!wanted_.at(tensor).found) {
        return RefuseTensor(
            absl::StrCat("shard ", shard, " lacks a tensor that the index maps to it"), tensor);
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Wanted {
    size_t shard = 0;
    bool found = false;
  };

  const WeightMap& weight_map_;
  absl::flat_hash_map<std::string_view, Wanted> wanted_;
};

}  // namespace

StatusOr<OpenCheckpoint> OpenModel(FileLayer& files, const std::vector<ModelRoot>& roots,
                                   const std::string& source) {
  TENURE_ASSIGN_OR_RETURN(const SourcePath at, ResolveSource(roots, source));
  StatusOr<OpenCheckpoint> checkpoint = files.KindOf(at.path) == FileLayer::Kind::kDirectory
                                            ? OpenDirectory(files, at.path, at.root)
                                            : OpenFile(files, at.path, at.root);
  if (checkpoint.ok()) checkpoint->content = ContentOf(*checkpoint);
  return checkpoint;
}

StatusOr<std::vector<TensorSource>> ParseTensors(const OpenCheckpoint& checkpoint) {
  WeightMap weight_map;
  std::optional<IndexedTensors> index;
  if (!checkpoint.index.empty()) {
    TENURE_ASSIGN_OR_RETURN(weight_map, ParseShardIndex(checkpoint.index));
    index.emplace(weight_map);
  }
  std::vector<TensorSource> tensors;
  for (size_t i = 0; i < checkpoint.shards.size(); ++i) {
    TENURE_ASSIGN_OR_RETURN(std::vector<HeaderEntry> entries, ParseShard(checkpoint.shards[i]));
    tensors.reserve(tensors.size() + entries.size());
    for (HeaderEntry& entry : entries) {
      if (index.has_value()) {
        const StatusOr<bool> takes = index->Takes(entry.spec.name, i);
        if (!takes.ok()) return InFile(takes.status(), checkpoint.shards[i].file->path());
        if (!*takes) continue;
      }
      tensors.push_back({.spec = std::move(entry.spec), .shard = i, .range = entry.range});
    }
  }
  if (index.has_value()) {
    const Status complete = index->CheckComplete();
    if (!complete.ok()) return InFile(complete, checkpoint.path);
  }
  return tensors;
}

Status CheckUnchanged(const OpenCheckpoint& checkpoint) {
  for (const Shard& shard : checkpoint.shards) {
    TENURE_ASSIGN_OR_RETURN(const FileStat now, shard.file->Stat());
    if (now != shard.stat) {
      return Error(Reason::kFileChanged,
                   absl::StrCat("file changed while it was read: ", shard.file->path()),
                   {{"path", shard.file->path()}});
    }
  }
  return absl::OkStatus();
}

}  // namespace tenure
