#include "core/checkpoint/refusal.h"

#include <absl/strings/str_cat.h>
#include <algorithm>

#include "core/base/check.h"

namespace tenure {
namespace {

constexpr size_t kMaxShownBytes = 128;
constexpr size_t kMaxShownNames = 24;

bool ContinuesCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string ShownName(std::string_view name) {
  size_t length = std::min(name.size(), kMaxShownBytes);
  while (length > 0 && length < name.size() && ContinuesCharacter(name[length])) --length;
  std::string shown(name.substr(0, length));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (length < name.size()) shown += "...";
  return shown;
}

std::string ShownNames(const std::vector<std::string>& names) {
  std::string shown;
  for (size_t i = 0; i < std::min(names.size(), kMaxShownNames); ++i) {
    absl::StrAppend(&shown, i == 0 ? "" : ", ", ShownName(names[i]));
  }
  if (names.size() > kMaxShownNames) {
    absl::StrAppend(&shown, " and ", names.size() - kMaxShownNames, " more");
  }
  return shown;
}

Status RefuseTensor(std::string_view what, std::string_view tensor) {
  const std::string shown = ShownName(tensor);
  return Error(Reason::kInvalidCheckpoint, absl::StrCat(std::string(what), ": ", shown),
               {{"tensor", shown}});
}

Status RefuseFile(std::string_view what, const std::string& path) {
  return Error(Reason::kInvalidCheckpoint, absl::StrCat(std::string(what), ": ", path),
               {{"path", path}});
}

Status InFile(const Status& refusal, const std::string& path) {
  const bool unsupported = HasReason(refusal, Reason::kUnsupportedDtype);
  TENURE_CHECK(unsupported || HasReason(refusal, Reason::kInvalidCheckpoint));
  ErrorValues values = DetailOf(refusal)->values;
  values.emplace_back("path", path);
  return Error(unsupported ? Reason::kUnsupportedDtype : Reason::kInvalidCheckpoint,
               absl::StrCat(std::string(refusal.message()), ", file: ", path), values);
}

}  // namespace tenure
