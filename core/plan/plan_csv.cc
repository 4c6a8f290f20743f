#include "core/plan/plan_csv.h"

#include <absl/strings/str_cat.h>
#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/plan/text_lines.h"

namespace tenure {
namespace {

enum class Column {
  kId,
  kLower,
  kUpper,
  kSize,
  kAlignment,
  kGaps,
  kOffset,
  kAlias,
  kOutput,
  kHint
};

struct Heading {
  std::string_view name;
  Column column;
};

// The first of each column is what it is called in errors.
constexpr std::array<Heading, 15> kHeadings = {{
    {"id", Column::kId},
    {"buffer", Column::kId},
    {"buffer_id", Column::kId},
    {"lower", Column::kLower},
    {"begin", Column::kLower},
    {"start", Column::kLower},
    {"upper", Column::kUpper},
    {"end", Column::kUpper},
    {"size", Column::kSize},
    {"alignment", Column::kAlignment},
    {"gaps", Column::kGaps},
    {"offset", Column::kOffset},
    {"alias", Column::kAlias},
    {"output", Column::kOutput},
    {"hint", Column::kHint},
}};
constexpr std::array kRequired = {Column::kId, Column::kLower, Column::kUpper, Column::kSize};

constexpr std::string_view kGapEnds = " \t;";

std::string NameOf(Column column) {
  return std::string(std::ranges::find(kHeadings, column, &Heading::column)->name);
}

// All of `text` as a number.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

// Takes the next value off a row, and the comma after it. nullopt if its quotes are wrong.
std::optional<std::string> TakeField(std::string_view& row) {
  const std::string_view begin = row.substr(std::min(row.find_first_not_of(" \t"), row.size()));
  if (!begin.starts_with('"')) {
    const size_t end = std::min(row.find(','), row.size());
    std::string field(Trimmed(row.substr(0, end)));
    row.remove_prefix(std::min(end + 1, row.size()));
    return field;
  }
  std::string field;
  size_t at = 1;
  for (;; ++at) {
    if (at >= begin.size()) return std::nullopt;
    if (begin[at] == '"') {
      const bool is_one = at + 1 < begin.size() && begin[at + 1] == '"';
      if (!is_one) break;
      ++at;
    }
    field += begin[at];
  }
  row = begin.substr(at + 1);
  const size_t end = std::min(row.find(','), row.size());
  if (!Trimmed(row.substr(0, end)).empty()) return std::nullopt;
  row.remove_prefix(std::min(end + 1, row.size()));
  return field;
}

class CsvReader {
 public:
  explicit CsvReader(std::string_view text) : lines_(text) {}

  StatusOr<PlanInput> Read() {
    const std::optional<std::string_view> heading = lines_.Next();
    if (!heading.has_value()) return FaultAt(1, "no_header", "a table without a heading");
    TENURE_RETURN_IF_ERROR(ReadHeading(*heading));
    while (const std::optional<std::string_view> row = lines_.Next()) {
      TENURE_RETURN_IF_ERROR(ReadRow(*row));
      line_of_.push_back(lines_.number());
    }
    TENURE_RETURN_IF_ERROR(CheckAtLines(input_, line_of_));
    return std::move(input_);
  }

 private:
  Status Fault(const std::string& fault, const std::string& explanation) const {
    return FaultAt(lines_.number(), fault, explanation);
  }
  Status Fault(const std::string& fault, const std::string& explanation,
               const std::string& column) const {
    return FaultAt(lines_.number(), fault, absl::StrCat(explanation, ": ", column),
                   {{"column", column}});
  }

  // Splits a row. At most one value more than `most` is looked at.
  Status Split(std::string_view row, size_t most) {
    fields_.clear();
    const bool ends_empty = row.ends_with(',');
    while (!row.empty() && fields_.size() <= most) {
      std::optional<std::string> field = TakeField(row);
      if (!field.has_value())
        return Fault("bad_quote", "a quote that is not closed, or text after it");
      fields_.push_back(*std::move(field));
    }
    if (ends_empty && fields_.size() <= most) fields_.emplace_back();
    return absl::OkStatus();
  }

  Status ReadHeading(std::string_view row) {
    TENURE_RETURN_IF_ERROR(Split(row, kHeadings.size()));
    for (const std::string& name : fields_) {
      const auto* const heading = std::ranges::find(kHeadings, name, &Heading::name);
      if (heading == kHeadings.end()) return UnknownColumn(name);
      if (std::ranges::count(columns_, heading->column) > 0) {
        return Fault("duplicate_column", "a column that is there twice", NameOf(heading->column));
      }
      columns_.push_back(heading->column);
      if (heading->name == "end") ends_inside_ = true;
    }
    for (const Column column : kRequired) {
      if (std::ranges::count(columns_, column) == 0) {
        return Fault("missing_column", "a column that is missing", NameOf(column));
      }
    }
    return absl::OkStatus();
  }

  Status UnknownColumn(const std::string& name) const {
    TENURE_RETURN_IF_ERROR(CheckId(lines_.number(), name));
    return Fault("unknown_column", "a column that is not known", name);
  }

  Status ReadRow(std::string_view row) {
    TENURE_RETURN_IF_ERROR(Split(row, columns_.size()));
    if (fields_.size() != columns_.size()) {
      return Fault("field_count",
                   absl::StrCat("more values or fewer than the ", columns_.size(), " columns"));
    }
    input_.emplace_back();
    for (size_t i = 0; i < fields_.size(); ++i) {
      TENURE_RETURN_IF_ERROR(ReadValue(columns_[i], fields_[i], input_.back()));
    }
    return absl::OkStatus();
  }

  Status ReadValue(Column column, const std::string& text, PlanBuffer& buffer) {
    switch (column) {
      case Column::kId:
        buffer.id = text;
        return CheckId(lines_.number(), text);
      case Column::kLower:
        return ReadStep(column, text, buffer.first_use);
      case Column::kUpper:
        if (text.empty()) {
          buffer.end = std::nullopt;
          return absl::OkStatus();
        }
        return ReadEnd(column, text, *buffer.end);
      case Column::kSize:
        return ReadBytes(column, text, buffer.size);
      case Column::kAlignment:
        return text.empty() ? absl::OkStatus() : ReadBytes(column, text, buffer.alignment);
      case Column::kGaps:
        return ReadGaps(text, buffer.gaps);
      case Column::kOffset:
        return text.empty() ? absl::OkStatus()
                            : ReadBytes(column, text, buffer.fixed_offset.emplace());
      case Column::kAlias:
        if (!text.empty()) buffer.alias_group = GroupOf(text);
        return absl::OkStatus();
      case Column::kOutput:
        buffer.output = text == "1" || text == "true" || text == "yes";
        if (buffer.output || text.empty() || text == "0" || text == "false" || text == "no") {
          return absl::OkStatus();
        }
        return Fault("bad_output", "neither 1 nor 0", NameOf(column));
      case Column::kHint:
        return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  Status ReadBytes(Column column, std::string_view text, Bytes& bytes) const {
    const std::optional<uint64_t> count = ParseNumber<uint64_t>(text);
    if (!count.has_value()) return BadNumber(column);
    bytes = Bytes(*count);
    return absl::OkStatus();
  }

  Status ReadStep(Column column, std::string_view text, Step& step) const {
    const std::optional<Step> number = ParseNumber<Step>(text);
    if (!number.has_value()) return BadNumber(column);
    step = *number;
    return absl::OkStatus();
  }

  Status ReadEnd(Column column, std::string_view text, Step& end) const {
    TENURE_RETURN_IF_ERROR(ReadStep(column, text, end));
    if (ends_inside_ && end <= kLastStep) ++end;
    return absl::OkStatus();
  }

  Status ReadGaps(std::string_view text, std::vector<Lifespan>& gaps) const {
    while (true) {
      text.remove_prefix(std::min(text.find_first_not_of(kGapEnds), text.size()));
      if (text.empty()) return absl::OkStatus();
      const std::string_view gap = text.substr(0, text.find_first_of(kGapEnds));
      text.remove_prefix(gap.size());
      if (gap.find('@') != std::string_view::npos) {
        return Fault("gap_window", "a gap that keeps a part of its buffer is not planned with");
      }
      const size_t dash = gap.find('-');
      if (dash == std::string_view::npos) return BadNumber(Column::kGaps);
      Lifespan& span = gaps.emplace_back();
      TENURE_RETURN_IF_ERROR(ReadStep(Column::kGaps, gap.substr(0, dash), span.begin));
      TENURE_RETURN_IF_ERROR(ReadEnd(Column::kGaps, gap.substr(dash + 1), span.end));
    }
  }

  uint32_t GroupOf(const std::string& name) {
    return groups_.try_emplace(name, static_cast<uint32_t>(groups_.size())).first->second;
  }

  Status BadNumber(Column column) const {
    return Fault("bad_number", "no number, or one that is too large", NameOf(column));
  }

  TextLines lines_;
  std::vector<Column> columns_;
  bool ends_inside_ = false;  // ends are the last step, not the one after it
  std::vector<std::string> fields_;
  std::unordered_map<std::string, uint32_t> groups_;
  PlanInput input_;
  std::vector<size_t> line_of_;
};

}  // namespace

StatusOr<PlanInput> ParsePlanCsv(std::string_view text) { return CsvReader(text).Read(); }

}  // namespace tenure
