#include "server/page_token.h"

#include <absl/strings/escaping.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_split.h>
#include <charconv>

#include "core/base/digest.h"

namespace tenure {
namespace {

// None of the positions has a line feed in it: they are names, ids and digests.
constexpr char kSeparator[] = "\n";
constexpr size_t kDigestDigits = 32;

std::string DigestText(std::string_view list, std::string_view body) {
  Digester digester;
  digester.Add(list);
  digester.Add(body);
  return digester.Finish().ToHex();
}

Status Refuse() {
  return Error(Reason::kInvalidRequest, "the page token is not one that this call gave");
}

}  // namespace

std::string MakePageToken(std::string_view list, const std::vector<std::string>& position) {
  const std::string body = absl::StrJoin(position, kSeparator);
  return absl::WebSafeBase64Escape(DigestText(list, body) + body);
}

StatusOr<std::vector<std::string>> ReadPageToken(std::string_view list, const std::string& token) {
  std::string text;
  if (!absl::WebSafeBase64Unescape(token, &text) || text.size() < kDigestDigits) return Refuse();
  const std::string body = text.substr(kDigestDigits);
  if (text.compare(0, kDigestDigits, DigestText(list, body)) != 0) return Refuse();
  return std::vector<std::string>(absl::StrSplit(body, kSeparator));
}

StatusOr<uint64_t> ReadPosition(const std::string& text) {
  uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return Refuse();
  return value;
}

}  // namespace tenure
