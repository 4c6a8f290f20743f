#include "core/device/host_memory.h"

#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

namespace tenure {
namespace {

// v1 has no word for "no limit": it shows the largest number of pages, in bytes.
constexpr Bytes kNoLimit(uint64_t{1} << 62);

std::optional<std::string> ReadWhole(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::vector<std::string> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t\n"), absl::SkipEmpty());
}

std::optional<Bytes> ParseBytes(const std::string& word) {
  uint64_t count = 0;
  if (!absl::SimpleAtoi(word, &count)) return std::nullopt;
  return Bytes(count);
}

// The number in a file that holds nothing else; nullopt for "max" as for a missing file.
std::optional<Bytes> ReadNumber(const std::string& path) {
  const std::vector<std::string> words = Words(ReadWhole(path).value_or(""));
  return words.size() == 1 ? ParseBytes(words[0]) : std::nullopt;
}

// The number behind `key` in a file of lines that each begin with a key.
std::optional<Bytes> ReadField(const std::string& path, absl::string_view key) {
  const std::optional<std::string> text = ReadWhole(path);
  if (!text.has_value()) return std::nullopt;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    if (!absl::StartsWith(line, key)) continue;
    const std::vector<std::string> words = Words(line);
    if (words.size() >= 2 && words[0] == key) return ParseBytes(words[1]);
  }
  return std::nullopt;
}

std::optional<Bytes> MachineAvailable(const std::string& root) {
  const std::optional<Bytes> kib = ReadField(root + "/proc/meminfo", "MemAvailable:");
  if (!kib.has_value() || *kib > Bytes(kNoLimit.count() >> 10)) return std::nullopt;
  return *kib * 1024;
}

std::optional<Bytes> Lesser(std::optional<Bytes> a, std::optional<Bytes> b) {
  if (!a.has_value()) return b;
  return b.has_value() ? std::min(*a, *b) : *a;
}

// What counts against a cgroup's limit and stays: all usage but the pages that only cache files.
Bytes Used(const std::string& usage_file, const std::string& stat_file, const std::string& prefix) {
  const Bytes cache = ReadField(stat_file, prefix + "inactive_file").value_or(Bytes(0)) +
                      ReadField(stat_file, prefix + "active_file").value_or(Bytes(0));
  return SaturatingSub(ReadNumber(usage_file).value_or(Bytes(0)), cache);
}

std::optional<Bytes> LeftInV1(const std::string& directory) {
  const std::optional<Bytes> limit = ReadNumber(directory + "/memory.limit_in_bytes");
  if (!limit.has_value() || *limit >= kNoLimit) return std::nullopt;
  // The total_ fields include the cgroups below, as the usage does.
  return SaturatingSub(
      *limit, Used(directory + "/memory.usage_in_bytes", directory + "/memory.stat", "total_"));
}

std::optional<Bytes> LeftInV2(const std::string& directory) {
  // Above memory.high nothing is killed, but weights cannot be written out, so every touch stalls.
  const std::optional<Bytes> limit =
      Lesser(ReadNumber(directory + "/memory.max"), ReadNumber(directory + "/memory.high"));
  if (!limit.has_value()) return std::nullopt;
  return SaturatingSub(*limit, Used(directory + "/memory.current", directory + "/memory.stat", ""));
}

// Where a cgroup hierarchy is mounted, and which of its cgroups is seen there.
struct CgroupMount {
  std::string root;
  std::string point;
  bool v1 = false;
};

// Reads "36 35 0:32 ROOT POINT OPTIONS ... - TYPE SOURCE SUPER_OPTIONS"; nullopt for any mount that
// cannot limit memory.
std::optional<CgroupMount> ParseMount(absl::string_view line) {
  const std::vector<std::string> words = Words(line);
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (words.size() < 5 || words.end() - dash < 4) return std::nullopt;
  const std::string& type = *(dash + 1);
  const std::vector<std::string> options = absl::StrSplit(*(dash + 3), ',');
  const bool v1 =
      type == "cgroup" && std::find(options.begin(), options.end(), "memory") != options.end();
  if (!v1 && type != "cgroup2") return std::nullopt;
  return CgroupMount{.root = words[3], .point = words[4], .v1 = v1};
}

// Reads "ID:CONTROLLERS:PATH"; v2 has the id 0 and names no controllers.
std::optional<std::string> ParseOwnPath(absl::string_view line, bool v1) {
  const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
  if (fields.size() != 3) return std::nullopt;
  const std::vector<std::string> controllers = absl::StrSplit(fields[1], ',');
  const bool matches =
      v1 ? std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()
         : fields[0] == "0" && fields[1].empty();
  return matches ? std::optional(fields[2]) : std::nullopt;
}

// The path of `own` from the mount's point on, beginning with '/' or empty. A container may see its
// own cgroup as the root of a mount and still be told the path outside: then the point is all there
// is.
std::string PathBelow(const CgroupMount& mount, const std::string& own) {
  const std::string prefix = mount.root == "/" ? "" : mount.root;
  const bool below = own.compare(0, prefix.size(), prefix) == 0 &&
                     (own.size() == prefix.size() || own[prefix.size()] == '/');
  if (!below || own.find("/..") != std::string::npos) return "";
  const std::string path = own.substr(prefix.size());
  return path == "/" ? "" : path;
}

}  // namespace

std::vector<HostMemory::Cgroup> HostMemory::FindCgroups(const std::string& root) {
  const std::string own_text = ReadWhole(root + "/proc/self/cgroup").value_or("");
  const std::string mounts_text = ReadWhole(root + "/proc/self/mountinfo").value_or("");
  std::vector<Cgroup> cgroups;
  for (const absl::string_view mount_line : absl::StrSplit(mounts_text, '\n')) {
    const std::optional<CgroupMount> mount = ParseMount(mount_line);
    if (!mount.has_value()) continue;
    for (const absl::string_view own_line : absl::StrSplit(own_text, '\n')) {
      const std::optional<std::string> own = ParseOwnPath(own_line, mount->v1);
      if (!own.has_value()) continue;
      std::string below = PathBelow(*mount, *own);
      for (;; below.resize(below.rfind('/'))) {
        cgroups.push_back({.directory = absl::StrCat(root, mount->point, below), .v1 = mount->v1});
        if (below.empty()) break;
      }
    }
  }
  return cgroups;
}

HostMemory::HostMemory(std::string root) : root_(std::move(root)), cgroups_(FindCgroups(root_)) {}

StatusOr<Bytes> HostMemory::Available() const {
  std::optional<Bytes> available = MachineAvailable(root_);
  for (const Cgroup& cgroup : cgroups_) {
    available =
        Lesser(available, cgroup.v1 ? LeftInV1(cgroup.directory) : LeftInV2(cgroup.directory));
  }
  if (available.has_value()) return *available;
  return Error(Reason::kBackend,
               absl::StrCat("cannot tell how much memory is available: no MemAvailable in ", root_,
                            "/proc/meminfo, and no cgroup has a limit"));
}

}  // namespace tenure
