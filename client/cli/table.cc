#include "client/cli/table.h"

#include <algorithm>
#include <ostream>

namespace tenure::cli {
namespace {

constexpr size_t kGap = 2;

// How many characters a terminal shows: the continuation bytes of UTF-8 are none.
size_t Width(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void Table::Print(std::ostream& out) const {
  std::vector<size_t> widths;
  std::vector<std::string> headings;
  for (const Column& column : columns_) {
    headings.push_back(column.heading);
    widths.push_back(Width(column.heading));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], Width(row[i]));
  }
  const auto print_row = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string padding(widths[i] - Width(row[i]), ' ');
      if (i > 0) line.append(kGap, ' ');
      line += columns_[i].align == Align::kRight ? padding + row[i] : row[i] + padding;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out << line << '\n';
  };
  print_row(headings);
  for (const auto& row : rows_) print_row(row);
}

void PrintFields(std::ostream& out,
                 const std::vector<std::pair<std::string, std::string>>& fields) {
  size_t width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, Width(name));
  for (const auto& [name, value] : fields) {
    out << name << std::string(width - Width(name) + kGap, ' ') << value << '\n';
  }
}

}  // namespace tenure::cli
