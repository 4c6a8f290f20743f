#include "core/plan/text_lines.h"

#include <algorithm>

#include "core/base/check.h"

namespace tenure {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kBlanks = " \t";
constexpr size_t kMostIdBytes = 1024;

std::string ValueOf(const ErrorDetail& detail, std::string_view name) {
  for (const auto& [each, value] : detail.values) {
    if (each == name) return value;
  }
  return {};
}

Status AtLine(const Status& error, size_t line) {
  const std::string number = std::to_string(line);
  return WithValue(WithNote(error, "line", number), "line", number);
}

}  // namespace

TextLines::TextLines(std::string_view text) : rest_(text) {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

std::optional<std::string_view> TextLines::Next() {
  while (!rest_.empty()) {
    const size_t end = std::min(rest_.find('\n'), rest_.size());
    std::string_view line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!Trimmed(line).empty()) return line;
  }
  return std::nullopt;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

Status FaultAt(size_t line, const std::string& fault, const std::string& explanation,
               ErrorValues values) {
  values.emplace_back("fault", fault);
  return AtLine(Error(Reason::kInvalidPlanInput, explanation, values), line);
}

Status CheckId(size_t line, std::string_view id) {
  const bool shown = std::ranges::none_of(
      id, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; });
  if (shown && id.size() <= kMostIdBytes) return absl::OkStatus();
  return FaultAt(line, "bad_id", "a name with a control character, or of more than 1024 bytes");
}

Status CheckAtLines(const PlanInput& input, const std::vector<size_t>& lines) {
  TENURE_CHECK(lines.size() == input.size());
  Status found = MakePlanProblem(input).status();
  if (found.ok()) return found;
  const std::optional<ErrorDetail> detail = DetailOf(found);
  TENURE_CHECK(detail.has_value());
  // The first buffer of that name, but of two of one name the second is at fault.
  const std::string id = ValueOf(*detail, "buffer");
  const bool again = ValueOf(*detail, "fault") == "duplicate_id";
  const auto first = std::ranges::find(input, id, &PlanBuffer::id);
  TENURE_CHECK(first != input.end());
  const auto at = again ? std::find_if(first + 1, input.end(),
                                       [&](const PlanBuffer& buffer) { return buffer.id == id; })
                        : first;
  TENURE_CHECK(at != input.end());
  return AtLine(found, lines[static_cast<size_t>(at - input.begin())]);
}

}  // namespace tenure
