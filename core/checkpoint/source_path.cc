#include "core/checkpoint/source_path.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_split.h>
#include <algorithm>

#include "core/checkpoint/refusal.h"

namespace tenure {
namespace {

Status Outside(std::string_view what, std::string_view source) {
  const std::string shown = ShownName(source);
  return Error(Reason::kPathOutsideRoots, absl::StrCat(std::string(what), ": ", shown),
               {{"source", shown}});
}

bool HasParentComponent(std::string_view path) {
  const std::vector<std::string> components = absl::StrSplit(std::string(path), '/');
  return std::find(components.begin(), components.end(), "..") != components.end();
}

bool IsUnder(std::string_view path, std::string_view root) {
  if (root == "/" || path == root) return true;
  return path.size() > root.size() && path.substr(0, root.size()) == root &&
         path[root.size()] == '/';
}

// Without "." and empty components: what a prefix can be compared with.
std::string Tidied(std::string_view path) {
  const std::string text(path);
  std::string tidied;
  for (const absl::string_view component : absl::StrSplit(text, '/')) {
    if (!component.empty() && component != ".") absl::StrAppend(&tidied, "/", component);
  }
  return tidied.empty() ? "/" : tidied;
}

std::string NamesOf(const std::vector<ModelRoot>& roots) {
  std::vector<std::string> names;
  names.reserve(roots.size());
  for (const ModelRoot& root : roots) names.push_back(root.name);
  return ShownNames(names);
}

}  // namespace

StatusOr<SourcePath> ResolveSource(const std::vector<ModelRoot>& roots, std::string_view source) {
  if (source.empty() || source.find('\0') != std::string_view::npos) {
    return Error(Reason::kInvalidRequest, "the source of a model is empty or holds a zero byte");
  }
  if (HasParentComponent(source)) return Outside("'..' in the source of a model", source);

  if (source.front() == '/') {
    const std::string path = Tidied(source);
    const ModelRoot* deepest = nullptr;
    for (const ModelRoot& root : roots) {
      if (IsUnder(path, root.path) &&
          (deepest == nullptr || root.path.size() > deepest->path.size())) {
        deepest = &root;
      }
    }
    if (deepest == nullptr) return Outside("path is under no model root", source);
    return SourcePath{.path = path, .root = deepest->path};
  }

  const size_t slash = std::min(source.find('/'), source.size());
  const std::string_view name = source.substr(0, slash);
  for (const ModelRoot& root : roots) {
    if (root.name == name) {
      return SourcePath{
          .path = Tidied(absl::StrCat(root.path, "/", std::string(source.substr(slash)))),
          .root = root.path};
    }
  }
  return Outside(absl::StrCat("no model root of that name (roots: ", NamesOf(roots), ")"), source);
}

}  // namespace tenure
